"""One small file per group of verbs; no logic lives here."""
