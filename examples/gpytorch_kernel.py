"""A graph in your own GPyTorch models: an exact and a variational Gaussian process on nodes.

Needs an extra: pip install 'nodegp[interop]'

    python examples/gpytorch_kernel.py
"""

import gpytorch
import torch

from nodegp_paper.datasets import synthetic
from nodegp_paper.gpytorch import GraphKernel

torch.manual_seed(0)
data = synthetic(600, n_classes=2, n_features=20, feature_noise=0.6, labels_per_class=30)
train, test = (torch.from_numpy(data.splits[name]) for name in ("train", "test"))
y = torch.from_numpy(data.y).float()


class Prior:
    def forward(self, nodes):
        return gpytorch.distributions.MultivariateNormal(self.mean(nodes), self.kernel(nodes))

    def build(self):
        self.mean = gpytorch.means.ConstantMean()
        base = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())  # on the features
        self.kernel = GraphKernel(data.graph, base)  # on node numbers


class Exact(Prior, gpytorch.models.ExactGP):
    def __init__(self, nodes, targets):
        super().__init__(nodes, targets, gpytorch.likelihoods.GaussianLikelihood())
        self.build()


class Variational(Prior, gpytorch.models.ApproximateGP):
    def __init__(self, inducing):  # nodes, so they stay where they are
        q = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
        strategy = gpytorch.variational.VariationalStrategy
        super().__init__(strategy(self, inducing, q, learn_inducing_locations=False))
        self.build()


def learn(model, objective, targets):
    optimiser = torch.optim.Adam(objective.parameters(), lr=0.1)
    for _ in range(60):
        optimiser.zero_grad()
        (-objective(model(train.float()), targets)).backward()
        optimiser.step()
    right = (model.eval()(test.float()).mean > 0) == (y[test] > 0)
    return f"test accuracy {right.float().mean():.3f}"


exact = Exact(train.float(), 2 * y[train] - 1)
evidence = gpytorch.mlls.ExactMarginalLogLikelihood(exact.likelihood, exact)
print("exact, regression on -1 and 1: ", learn(exact, evidence, exact.train_targets))
variational = Variational(torch.randperm(600)[:50].float())
bound = gpytorch.mlls.VariationalELBO(gpytorch.likelihoods.BernoulliLikelihood(), variational, 60)
print("variational, 50 inducing nodes:", learn(variational, bound, y[train]))
