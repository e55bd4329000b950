"""The graph a model is fitted on: who is linked to whom, and what is known of each node.

A :class:`Graph` is undirected, has no self-loops and holds one non-negative weight per
edge. It checks what comes in once, so that nothing after it has to; it holds no labels
and no maths of the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from nodegp.graph_parts import checked_features, checked_ids, undirected
from nodegp.identity import fingerprint

__all__ = ["Graph", "all_edges", "check_nodes"]


class Graph:
    """An undirected graph with optional node features and node ids.

    Parameters
    ----------
    adjacency : scipy sparse matrix or array, or square 2-d numpy array
        Entry (i, j) is the weight of the edge between i and j; zero means no edge. **The weight of
        the edge {i, j} is the largest entry given for it**, in either direction and over
        duplicates; self-loops are dropped, because the model adds the node itself to its
        neighbourhood. For several kinds of edges, pass a dict of such matrices by name: they are
        kept in ``relations``, and ``adjacency`` is then the union of all kinds.
    features : scipy sparse matrix or 2-d array of numbers, optional
        Row n has the raw features of node n; models preprocess them. Sparse stays sparse.
    ids : sequence, optional
        Unique names of the nodes.
    is_prepared : bool
        The features are already preprocessed, as after reading tables with text or categories, and
        models do not preprocess them again unless told how.
    links_alike : bool
        The edges link nodes with similar features and add no information, as in the
        nearest-neighbour graph of a table.

    Notes
    -----
    The arrays passed in are never changed. Features that need no conversion are kept
    by reference, so do not change them afterwards.

    Examples
    --------
    >>> graph = Graph.from_edges([["a", "b"], ["b", "c"]], ids=["a", "b", "c", "d"])
    >>> graph.n_nodes, graph.n_edges
    (4, 2)
    >>> graph.degrees.tolist()
    [1.0, 2.0, 1.0, 0.0]
    """

    takes_all_pairs = True  # whether work on all pairs of nodes may be thought of

    def __init__(
        self,
        adjacency: Any,
        features: Any = None,
        ids: Sequence | np.ndarray | None = None,
        is_prepared: bool = False,
        links_alike: bool = False,
    ):
        self.is_prepared = is_prepared
        self.links_alike = links_alike
        self.relations: dict[str, sp.csr_array] | None = None
        self.n_fitted_nodes: int | None = None  # nodes after these send no messages
        # The same object each time, so that what is kept for a graph is found again.
        self._views: dict[str, Graph] = {}
        if isinstance(adjacency, Mapping) and not sp.issparse(adjacency):
            self.relations, adjacency = _relations(adjacency)
        self.adjacency: sp.csr_array = undirected(adjacency)
        self.features = None if features is None else checked_features(features, self.n_nodes)
        self.ids = None if ids is None else checked_ids(ids, self.n_nodes)

    @property
    def n_nodes(self) -> int:
        return self.adjacency.shape[0]

    @property
    def n_edges(self) -> int:
        """Undirected edges, each counted once."""
        return self.adjacency.nnz // 2

    @property
    def n_features(self) -> int:
        return 0 if self.features is None else self.features.shape[1]

    @cached_property
    def degrees(self) -> np.ndarray:
        """Weighted degree of each node, shape (N,)."""
        return np.asarray(self.incoming.sum(axis=1)).ravel()

    @property
    def incoming(self) -> sp.csr_array:
        """The adjacency as a filter reads it: row n has the nodes that n gets messages from."""
        if self.n_fitted_nodes is None:
            return self.adjacency
        is_fitted = (np.arange(self.n_nodes) < self.n_fitted_nodes).astype(np.float64)
        return sp.csr_array(self.adjacency @ sp.diags_array(is_fitted))

    def positions(self, ids: Sequence) -> np.ndarray:
        """Positions of the nodes with these ids."""
        if self.ids is None:
            raise ValueError("this graph has no ids; pass ids= to Graph to use them")
        missing = [name for name in ids if name not in self._where]
        if missing:
            examples = ", ".join(map(repr, self.ids[:3].tolist()))
            raise ValueError(
                f"{len(missing)} ids are not in the graph, first: {missing[:5]}; its ids look "
                f"like {examples}"
            )
        return np.array([self._where[name] for name in ids], dtype=np.intp)

    @cached_property
    def _where(self) -> dict[Any, int]:
        return {} if self.ids is None else {name: n for n, name in enumerate(self.ids.tolist())}

    def numbers(self, nodes: Any) -> np.ndarray:
        """The positions of these nodes.

        Parameters
        ----------
        nodes : node numbers, ids that are text, or a mask; None means every node
            A number is always a position in the graph, never an id: for ids that are numbers see
            :meth:`positions`. Text is always an id.
        """
        names = np.atleast_1d(np.asarray(nodes))
        may_be_text = names.ndim == 1 and names.size > 0 and names.dtype.kind in "OUT"
        if may_be_text and all(isinstance(name, str) for name in names.tolist()):
            return self.positions(names.tolist())
        return check_nodes(nodes, self.n_nodes)

    def relation(self, name: str) -> Graph:
        """The same nodes with the edges of one kind."""
        if self.relations is None or name not in self.relations:
            kinds = list(self.relations or ())
            raise ValueError(f"this graph has no edges of kind {name!r}; its kinds are {kinds}")
        if name not in self._views:
            edges = self.relations[name]
            self._views[name] = Graph(edges, self.features, self.ids, self.is_prepared)
        return self._views[name]

    def begins_like(self, other: Graph) -> bool:
        """Whether the first nodes of this graph are those of the other, by their ids and features;
        edges may have come and gone."""
        n = other.n_nodes
        if self.n_nodes < n or self.n_features != other.n_features:
            return False
        if self.ids is not None and other.ids is not None:
            return bool(np.array_equal(self.ids[:n], other.ids))
        if self.features is None or other.features is None:
            return self.features is other.features
        mine, theirs = self.features[:n], other.features
        if sp.issparse(mine) and sp.issparse(theirs):
            return bool((mine != theirs).nnz == 0)
        return not sp.issparse(mine) and not sp.issparse(theirs) and np.array_equal(mine, theirs)

    def marks(self, n_nodes: int) -> dict[str, str]:
        """What the first nodes can be known by again without this graph: hashes of their ids and of
        their features, as far as there are any."""
        result = {}
        if self.ids is not None:
            result["ids"] = fingerprint([str(name) for name in self.ids[:n_nodes].tolist()])
        if self.features is not None:
            rows = self.features[:n_nodes].astype(np.float64)
            if sp.issparse(rows):
                rows.sum_duplicates()
                rows.eliminate_zeros()
                parts = (rows.indptr, rows.indices)
                rows = np.concatenate([*(part.astype(np.float64) for part in parts), rows.data])
            result["features"] = fingerprint(rows, self.n_features)
        return result

    def subgraph(self, nodes: Any) -> Graph:
        """The subgraph induced by these nodes (as in :meth:`numbers`), in this order."""
        nodes = self.numbers(nodes)
        edges: Any = self.adjacency[nodes][:, nodes]
        if self.relations is not None:
            edges = {name: matrix[nodes][:, nodes] for name, matrix in self.relations.items()}
        return Graph(
            edges,
            None if self.features is None else self.features[nodes],
            None if self.ids is None else self.ids[nodes],
            self.is_prepared,
            self.links_alike,
        )

    def largest_component(self) -> np.ndarray:
        """Positions of the nodes in the largest connected component; of equal ones, the first."""
        _, component = connected_components(self.adjacency, directed=False)
        return np.flatnonzero(component == np.bincount(component).argmax())

    # --- from and to other libraries; nodegp.interchange does the work -------------------------

    @staticmethod
    def from_edges(
        edges: Any,
        weights: Any = None,
        *,
        ids: Sequence | np.ndarray | None = None,
        features: Any = None,
        n_nodes: int | None = None,
    ) -> Graph:
        """A graph from a list of edges.

        Parameters
        ----------
        edges : list of pairs, array of shape (edges, 2), or tuple (sources, targets)
            By node number, or by id when ``ids`` are given.
        weights : one per edge, optional
        ids : sequence, optional
            The names of all nodes, in order. An edge with an unknown name is an error.
        features : one row per node, optional
        n_nodes : int, optional
            By default the number of ids or of feature rows, or the largest node number plus one.
        """
        from nodegp.interchange.edges import from_edges

        return from_edges(edges, weights, ids, features, n_nodes)

    @staticmethod
    def from_networkx(G: Any, features: Any = None, weight: str | None = "weight") -> Graph:
        """A graph from a networkx graph, whose node names become the ids.

        Parameters
        ----------
        G : networkx graph, directed or not, simple or multi
        features : optional
            Node attributes: a list of names of numeric attributes, or the name of one that holds a
            vector. Or a matrix with rows in the order of ``G.nodes``. By default the attribute "x"
            if it is a vector at every node, else none, because a number could be the label; a
            warning names the numeric attributes that are not used. ``[]`` means no features.
        weight : str or None
            The edge attribute that holds the weight; 1 where an edge has none.
        """
        from nodegp.interchange.networkx import from_networkx

        return from_networkx(G, features, weight)

    @staticmethod
    def from_pyg(data: Any) -> Graph:
        """A graph from a PyTorch Geometric ``Data``: its edges (``edge_index`` or ``adj_t``), ``x``
        dense or sparse, and ``ids`` if it has any.

        Weights are ``edge_weight``, or else an ``edge_attr`` of one column.
        ``nodegp_paper.datasets.from_pyg`` takes over labels and masks too.
        """
        from nodegp.interchange.pyg import from_pyg

        return from_pyg(data)

    @staticmethod
    def from_dataframes(
        nodes: Any,
        edges: Any,
        *,
        id: str,
        source: str,
        target: str,
        weight: str | None = None,
        features: Sequence[str] | None = None,
        text: Sequence[str] | None = None,
        categorical: Sequence[str] | None = None,
    ) -> Graph:
        """A graph from two tables of pandas, polars or pyarrow, or from files of tables.

        Parameters
        ----------
        nodes, edges : one row per node, one row per edge
        id : column of ``nodes`` with text or whole numbers
        source, target : columns of ``edges`` with such ids
        weight : column of ``edges``, optional
        features : columns of ``nodes`` with numbers, or with lists of numbers of one length
            By default every column without another role (an index of pandas is no column). List
            them if there are columns that must not be used: a column of labels among the features
            would leak the answer. Text columns listed here are treated as categories.
        text, categorical : text columns, whose words become features, and columns of categories
            With either, features are preprocessed as by ``nodegp fit``, including missing values;
            :func:`nodegp.io.read_tables` also returns the encoder for later rows. Numbers alone are
            not preprocessed and must have no gaps.
        """
        from nodegp.io.load import TableSource, graph_of_tables

        tables = TableSource(
            nodes, edges, id=id, edge_columns=(source, target), weight=weight,
            features=features, text=text, categorical=categorical,
        )  # fmt: skip
        return graph_of_tables(tables)

    def to_networkx(self) -> Any:
        """This graph as a ``networkx.Graph``: ids (or numbers) as nodes, features as the
        node attribute "x" (a vector, or a sparse matrix of one row), weights as "weight"."""
        from nodegp.interchange.networkx import to_networkx

        return to_networkx(self)

    def to_pyg(self, y: Any = None, splits: Mapping[str, Any] | None = None) -> Any:
        """This graph as a PyTorch Geometric ``Data``.

        Features keep their precision (layers of PyTorch want ``data.x.float()``) and sparse ones
        stay sparse; ``edge_weight`` is there if any weight is not 1, ``ids`` if there are any.

        Parameters
        ----------
        y : one number per node, optional
        splits : name -> nodes as in :meth:`numbers`, optional
            Each becomes a ``<name>_mask``.
        """
        from nodegp.interchange.pyg import to_pyg

        return to_pyg(self, y, splits)

    def __repr__(self) -> str:
        features = "no features" if self.features is None else f"{self.n_features} features"
        return f"Graph({self.n_nodes} nodes, {self.n_edges} edges, {features})"


def check_nodes(nodes: Any, n_nodes: int) -> np.ndarray:
    """Node numbers or a boolean mask, as an index array; None means every node."""
    if nodes is None:
        return np.arange(n_nodes)
    nodes = np.atleast_1d(np.asarray(nodes))
    if nodes.dtype == bool:
        if nodes.shape != (n_nodes,):
            raise ValueError(f"a node mask needs shape ({n_nodes},), got {nodes.shape}")
        return np.flatnonzero(nodes)
    if nodes.size == 0:
        return np.zeros(0, dtype=np.intp)
    if nodes.ndim != 1 or not np.issubdtype(nodes.dtype, np.integer):
        raise ValueError(
            f"nodes must be a 1-d array of node numbers or a mask, got {nodes.dtype} "
            f"of shape {nodes.shape}"
        )
    if nodes.min() < 0 or nodes.max() >= n_nodes:
        raise ValueError(
            f"node numbers must lie in 0..{n_nodes - 1}, got {nodes.min()}..{nodes.max()}"
        )
    return nodes.astype(np.intp)


def _relations(kinds: Mapping[str, Any]) -> tuple[dict[str, sp.csr_array], sp.coo_array]:
    """Each kind of edges, checked, and all of them together."""
    if not kinds:
        raise ValueError("adjacency has no kind of edges at all; give at least one")
    relations = {str(name): undirected(matrix) for name, matrix in kinds.items()}
    reserved = [name for name in relations if name.startswith("@")]
    if reserved:
        raise ValueError(f"names of kinds of edges cannot begin with @; rename {reserved}")
    shapes = {name: matrix.shape for name, matrix in relations.items()}
    if len(set(shapes.values())) > 1:
        raise ValueError(f"all kinds of edges must join the same nodes, got shapes {shapes}")
    return relations, all_edges(list(relations.values()))


def all_edges(matrices: Sequence[Any]) -> sp.coo_array:
    """The edges of each one after the other, in the shape of the last: :class:`Graph` takes the
    largest weight of any that is there twice."""
    parts = [matrix.tocoo() for matrix in matrices]
    data, row, col = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("data", "row", "col")
    )
    return sp.coo_array((data, (row, col)), shape=parts[-1].shape)
