"""Beyond the paper: the package's default model against others, on the same labels.

``models`` has who is compared and what is measured of each; ``splits``, ``public``, ``learning``
and ``timing`` are the experiments; ``plan`` lists their runs; ``tables``, ``figures`` and
``report`` show them.
"""
