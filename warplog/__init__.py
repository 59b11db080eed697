"""Warplog: a GPU journal in which every claim re-runs.

Two halves meet only in `record`: measuring (`run`, `measure`, `profile`, `environment`, `runner`:
torch and a GPU) and reading (`claim`, `entry`, `figure`, `page`, `plugin`: neither).
"""

__version__ = "0.1.0"
