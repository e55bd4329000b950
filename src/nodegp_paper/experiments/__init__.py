"""The paper's experiments: what to run, a runner that loses nothing, tables and a report.

Each experiment is a module with the runs it needs (:class:`~nodegp_paper.experiments.spec.Spec`), a
function that carries out one of them, and a function that turns their records into a table or
figure.
"""
