"""The paper's experiments and those beyond it: from what is asked for to tables and a page.

``plan`` lists what can be asked for: which runs it needs, its tables and figures, and the page that
they are on. ``tasks`` has the runs, ``models`` the models, and ``scoring`` what is measured of
them; ``runner`` carries runs out and ``store`` keeps them; ``tables``, ``figures`` and ``report``
show them.
"""
