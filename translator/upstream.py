"""(wired later)"""
