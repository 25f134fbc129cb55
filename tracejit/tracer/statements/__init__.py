"""Python's own control flow in a traced function: `for`, `while`, `if`, `and` and their kin become calls, which decide
by the values that they meet whether Python goes on as ever or the program gets a loop or branch.
"""
