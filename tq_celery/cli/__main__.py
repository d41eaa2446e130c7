"""``python -m tq_celery.cli``: the ``tq`` command, for programs that start it."""

from tq_celery.cli import main

if __name__ == "__main__":
    main(prog_name="tq")
