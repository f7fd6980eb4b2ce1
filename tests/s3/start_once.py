"""A Python program that starts once for many commands: start_once.py PROGRAM COMMAND MODULE...

It imports the modules and reads the program, unmodified. For each line on standard input, the id of
a process, a child runs the program with the arguments and the AWS_* variables in the file COMMAND,
in the folder of that process and with its input, output and errors. The exit code is printed.
"""

import gc
import importlib
import os
import sys


def run(caller):
    """Is the program, called by that process."""
    for number, flags in enumerate((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)):
        opened = os.open(f"/proc/{caller}/fd/{number}", flags)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(f"/proc/{caller}/cwd")
    with open(command) as file:
        count, *words = file.read().split("\0")[:-1]
    arguments, variables = words[: int(count)], words[int(count) :]
    os.environ.update(variable.split("=", 1) for variable in variables)
    sys.argv = [program, *arguments]
    code = 0
    try:
        exec(compiled, {"__name__": "__main__", "__file__": program})
    except SystemExit as end:
        code = end.code or 0
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # nobody waits until all modules are taken down


program, command, *modules = sys.argv[1:]
for module in modules:
    importlib.import_module(module)
with open(program) as file:
    compiled = compile(file.read(), program, "exec")
gc.freeze()  # what is loaded is not looked through again in each child
callers, codes = open(os.dup(0)), open(os.dup(1), "w")
for line in callers:
    if (child := os.fork()) == 0:
        run(int(line))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(code if code >= 0 else 128 - code, file=codes, flush=True)
