"""Rows of filtered features term by term, for filters whose coefficients are learnt."""

from __future__ import annotations

import numpy as np

from nodegp.prior.columns import FeatureColumns
from nodegp.prior.domain import Domain
from nodegp.prior.kept import check_size
from nodegp.propagation import Countdown, FilterPolynomial, basis_columns, basis_rows

__all__ = ["basis_at"]


def basis_at(domain: Domain, polynomial: FilterPolynomial, nodes: np.ndarray) -> np.ndarray:
    """Rows at the nodes that the filter's coefficients weight, (terms, n, D): they hold no
    hyper-parameter, so learning those needs no graph."""
    operator, n_columns = domain.operator(polynomial.self_loops), domain.n_columns
    check_size(len(polynomial) * len(nodes), n_columns)
    result = np.empty((len(polynomial), len(nodes), n_columns))
    if domain.indicators_are_cheaper(polynomial, len(nodes), len(polynomial)):
        for block in operator.column_blocks(len(nodes)):
            for which, back in enumerate(basis_rows(operator, polynomial, nodes[block])):
                result[which, block] = domain.rows.transposed_times(back).T
        return result
    columns = FeatureColumns(domain.rows, np.float64)
    progress = Countdown("learning a filter along the edges", "columns", len(columns))
    for block in operator.column_blocks(len(columns)):
        terms = basis_columns(operator, polynomial, columns.block(block))
        for which, carried in enumerate(terms):
            result[which, :, block] = carried[nodes]
        progress(block.stop)
    return result
