"""The command line: its verbs, the plan and the summary it prints, its progress bars."""

DONE, COMPUTATION_SAYS_NO, WRONG_REQUEST, INTERRUPTED = 0, 1, 2, 130  # exit codes
