"""What every filter is: which nodes' f make up each h_n, and with what weight."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from nodegp.component import Component
from nodegp.graph import Graph

__all__ = ["Filter"]


@dataclass(frozen=True)
class Filter(Component):
    """h = F f: which nodes' f make up each h_n (Eq. 10), and with what weight."""

    @abstractmethod
    def weights(self, graph: Graph, nodes: np.ndarray) -> sp.csr_array | None:
        """Rows ``nodes`` of F, shape (len(nodes), N); None for rows of the identity."""
