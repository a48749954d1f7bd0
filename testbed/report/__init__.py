"""What a run leaves for people and programs: `summary.json` and a self-contained `report.html`."""
