"""The labelling page: a server on the user's own machine, and the page that it serves.

Needs the extra ``label`` (Starlette and uvicorn). What is done with a user's data is in
:mod:`nodegp.label`; here it is only brought to a browser and back, safely.
"""
