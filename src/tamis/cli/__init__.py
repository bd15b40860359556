"""The command line: its verbs, the plan and the summary it prints, its progress bars."""
