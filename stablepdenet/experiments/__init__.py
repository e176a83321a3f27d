"""Experiments around the library: the paper's problems by name, configurations, runs in folders, campaigns, reports.

Here alone names, files and the paper are known; the folders beside this one take objects and return operators.
"""
