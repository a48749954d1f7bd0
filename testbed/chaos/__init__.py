"""Scenario files, faults on a timeline with a journal, runs and their verdict."""
