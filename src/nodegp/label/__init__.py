"""Labelling by hand: a session of one expert, one graph and a model that learns from each answer.

A :class:`~nodegp.label.session.Session` asks, takes answers into a journal that loses none, and
learns. It knows of no web page: :mod:`nodegp.web` shows one, and another front end may as well.
"""
