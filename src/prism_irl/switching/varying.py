"""Chains whose kernel varies along the trajectory: by the state that is left, by covariates, or by both.

    covariates                 P(z_t=k | z_{t-1}=j, x_t) = softmax_k(B_jk + w_jk · x_t),              w_jj = 0
    state and pair             P(z_t=k | z_{t-1}=j, s_{t-1}=s) = (n_sjk + m P_jk) / (n_sj + m)
    state, pair, covariates    P(z_t=k | z_{t-1}=j, s_{t-1}=s, x_t) = softmax_k(B_sjk + w_jk · x_t),  w_jj = 0
    SWIRL (Ke et al. 2025)     P(z_t=k | z_{t-1}=j, s_{t-1}) = softmax_k(log_Ps[j, k] + g_k(s_{t-1}))

w_jk is what one standard deviation of an input (thirst, time in the session) adds to the log odds of going from j to k
against staying. Its M-step is concave: the pairwise posteriors of every step weigh one logistic regression per
intention (`logit`). A kernel per state *and* pair of intentions says which intention ends there (drinking ends at the
water port): the goal that is reached, and no other. It is a table of expected counts, shrunk towards the kernel that
knows no state by m steps; with covariates the steps are at their mean. SWIRL's g = W2ᵀ·sigmoid(W1[s] + b1) + b2 ("mlp",
the labyrinth of their paper) or a free table ("table", their gridworld) says where a state leads to, whatever the
intention was. In continuous worlds every intention ends at one place (`places`); `recurrent` reads more, the whole
history.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import numpy.typing as npt
import torch
from scipy import optimize
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from prism_irl.arrays import FloatArray, IntArray
from prism_irl.data.batching import Batch, Prepared, Rows, Stats
from prism_irl.data.demonstrations import Demonstrations
from prism_irl.switching.base import Posterior
from prism_irl.switching.chain import FLOOR, Chain, Previous, sticky
from prism_irl.switching.inference import infer_flat
from prism_irl.switching.logit import Logit, fit_logit
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.networks import Carry, SwitchingModule
from prism_irl.switching.options import KernelName

SMALLEST = 1e-3  # a kernel entry of nearly zero would take EM, or a gradient, forever to revive


def first_counts(data: Prepared, posterior: Posterior) -> FloatArray:
    """Expected number of first steps of every intention, (K,)."""
    return np.asarray(posterior.responsibilities[data.demos.offsets[:-1]].sum(0))


def first_intentions(counts: FloatArray) -> Tensor:
    """P(z_1=k), (K,), from expected counts of first steps."""
    first = torch.from_numpy(counts) + FLOOR
    return first / first.sum()


def states_before(demos: Demonstrations) -> IntArray:
    """State of the step before each, (n,); that of a first step is never read."""
    before = np.zeros(demos.n_steps, np.int64)
    before[1:] = demos.states[:-1]
    return before


def floored(kernel: Tensor) -> Tensor:
    """Probabilities (…, K) whose entries EM can still move."""
    raised = kernel.clamp_min(SMALLEST)
    return raised / raised.sum(-1, keepdim=True)


class VaryingKernel(SwitchingModule, Chain):
    """A kernel of its own at every step: everything but what the kernel is, and how it is fitted.

    Attributes
    ----------
    n_inputs : int
        Covariates that the kernel reads, standardised ones: 0 is their mean.
    """

    reads_pairs = True
    initial: Tensor

    def __init__(self, n_intentions: int, n_inputs: int = 0) -> None:
        super().__init__()
        self.n_intentions, self.n_inputs = n_intentions, n_inputs
        self.register_buffer("initial", torch.full((n_intentions,), 1.0 / n_intentions, dtype=torch.float64))

    @abstractmethod
    def log_kernels(self, before: Tensor | None, inputs: Tensor | None) -> Tensor:
        """Log kernel from states (…) at inputs (…, d) of the step that is entered, (…, K, K), or (K, K) of all steps.

        Without ``before`` the state is not known; ``inputs`` are there where the kernel reads some.
        """

    def log_initial(self) -> Tensor:
        """Log of the initial distribution."""
        return self.initial.log()

    def log_kernel(self, batch: Batch) -> Tensor:
        """Kernel into step t, read from s_{t-1} and x_t, (B, T, K, K)."""
        before = torch.cat([batch.states[:, :1], batch.states[:, :-1]], dim=1)
        return self.log_kernels(before, self.inputs_in(batch.observations)).expand(*before.shape, -1, -1)

    def stream_kernel(
        self, states: Tensor, previous: Previous | None, observations: Tensor | None, carry: Carry
    ) -> tuple[Tensor, Carry]:
        """Kernel from the state before, at the inputs of the step; at the first step it is not read."""
        before = states if previous is None else previous.states
        return self.log_kernels(before, self.inputs_in(observations)).expand(len(states), -1, -1), carry

    @torch.no_grad()
    def expectation(self, data: Prepared, log_emission: Tensor, *, online: bool = True) -> Posterior:
        """Forward–backward over ragged data as it lies; in padded batches where that is not to be had."""
        found = None
        if log_emission.device.type == self.log_initial().device.type == "cpu":
            inputs = self.inputs_in(data.demos.observations)
            at = None if inputs is None else torch.from_numpy(np.asarray(inputs, dtype=np.float64))
            kernel = self.log_kernels(torch.from_numpy(states_before(data.demos)), at).double()
            arrays = self.log_initial().numpy(), kernel.numpy(), log_emission.double().numpy()
            found = infer_flat(*arrays, data.demos.offsets, online=online)
        return super().expectation(data, log_emission, online=online) if found is None else found

    @torch.no_grad()
    def take_over(self, chain: MarkovChain) -> None:
        """Begin with the first intentions of a Markov chain."""
        self.initial.copy_(floored(chain.initial))


class StateKernel(VaryingKernel):
    """A kernel per state that the step leaves from."""

    n_states: int

    @abstractmethod
    def state_kernels(self) -> Tensor:
        """Log P(z_{t+1}=k | z_t=j, s_t=s), (S + 1, K, K); the last is for a state that the fit never named."""

    def log_kernels(self, before: Tensor | None, inputs: Tensor | None) -> Tensor:
        """Rows of the table."""
        table = self.state_kernels()
        if before is None:
            return table[-1]
        rows = table.index_select(0, before.reshape(-1).clamp_max(self.n_states))
        return rows.reshape(*before.shape, *table.shape[1:])

    def statistics(self, data: Prepared, posterior: Posterior) -> Stats:
        """Expected counts of first steps (K,), and of the moves of steps that leave each state, (S, K, K)."""
        assert posterior.pairwise is not None
        K, before = self.n_intentions, np.minimum(states_before(data.demos), self.n_states)
        columns = [np.bincount(before, one, self.n_states + 1) for one in posterior.pairwise.reshape(-1, K * K).T]
        leaving = np.stack(columns, axis=1).reshape(-1, K, K)[: self.n_states].astype(np.float64)
        return Stats(initial=first_counts(data, posterior), leaving=leaving)


class StatePairChain(StateKernel):
    """A kernel per state and pair of intentions, updated in closed form; options in `switching.options.State`."""

    distributions = ("initial", "kernel", "kernels")
    kernel: Tensor
    kernels: Tensor

    def __init__(self, n_states: int, n_intentions: int, *, shrinkage: float = 8.0) -> None:
        super().__init__(n_intentions)
        self.n_states, self.shrinkage = n_states, shrinkage
        self.register_buffer("kernel", torch.softmax(sticky(n_intentions).double(), dim=-1))
        self.register_buffer("kernels", self.kernel.expand(n_states, -1, -1).clone())

    def state_kernels(self) -> Tensor:
        """Log of the table, and of the kernel without the state."""
        return torch.cat([self.kernels, self.kernel.unsqueeze(0)]).log()

    @torch.no_grad()
    def take_over(self, chain: MarkovChain) -> None:
        """Begin as a given Markov chain, in every state."""
        super().take_over(chain)
        self.kernel.copy_(floored(chain.kernel))
        self.kernels.copy_(self.kernel.expand_as(self.kernels))

    @torch.no_grad()
    def update(self, stats: Stats) -> None:
        """Expected transitions that leave each state, shrunk towards those of all states."""
        counts = torch.from_numpy(stats["leaving"]).to(self.kernel)
        self.initial.copy_(first_intentions(stats["initial"]))
        pooled = counts.sum(0) + FLOOR
        self.kernel.copy_(pooled / pooled.sum(-1, keepdim=True))
        shrunk = counts + self.shrinkage * self.kernel + FLOOR
        self.kernels.copy_(shrunk / shrunk.sum(-1, keepdim=True))


class StateChain(StateKernel):
    """SWIRL's kernel: the state pulls towards intentions, whichever was there before.

    A table ("table") is convex and free; the network ("mlp") shares its hidden units between states. An M-step takes
    ``steps`` L-BFGS iterations at most, warm-started: a generalised EM.
    """

    def __init__(
        self,
        n_states: int,
        n_intentions: int,
        *,
        kind: KernelName,
        hidden: int = 32,
        ridge: float = 0.1,
        steps: int = 25,
    ) -> None:
        super().__init__(n_intentions)
        self.n_states, self.kind, self.ridge, self.steps = n_states, kind, ridge, steps
        K = n_intentions
        self.log_Ps = nn.Parameter(torch.log_softmax(sticky(K).double(), dim=-1))
        if kind == "table":
            self.table = nn.Parameter(torch.zeros(n_states, K, dtype=torch.float64))
        else:
            # Hidden units that tell states apart and a silent output: the chain begins as a Markov chain, and yet
            # the first gradient is not zero.
            self.W1 = nn.Parameter(torch.randn(n_states, hidden, dtype=torch.float64))
            self.b1 = nn.Parameter(torch.zeros(1, hidden, dtype=torch.float64))
            self.W2 = nn.Parameter(torch.zeros(hidden, K, dtype=torch.float64))
            self.b2 = nn.Parameter(torch.zeros(1, K, dtype=torch.float64))

    def drive(self) -> Tensor:
        """g_k(s), (S, K): what each state adds to the logit of each next intention."""
        if self.kind == "table":
            return self.table
        return torch.sigmoid(self.W1 + self.b1) @ self.W2 + self.b2

    def state_kernels(self) -> Tensor:
        """Log softmax of the formula; a state that the fit never named pulls as the mean of all."""
        drive = self.drive()
        drive = torch.cat([drive, drive.mean(0, keepdim=True)])
        return torch.log_softmax(self.log_Ps + drive.unsqueeze(1), dim=-1)

    @torch.no_grad()
    def take_over(self, chain: MarkovChain) -> None:
        """Begin as a given Markov chain, with g as it is."""
        super().take_over(chain)
        self.log_Ps.copy_(chain.kernel.clamp_min(SMALLEST).log())

    def loss(self, counts: Tensor) -> Tensor:
        """Negative expected log-likelihood of the transitions (S, K, K), minus the log prior, in nats."""
        expected = (counts * self.state_kernels()[: self.n_states]).sum()
        return 0.5 * self.ridge * sum((p * p).sum() for p in self.parameters()) - expected

    def update(self, stats: Stats) -> None:
        """Initial distribution in closed form, kernel by L-BFGS on counts per state, whatever n is."""
        self.initial.copy_(first_intentions(stats["initial"]))
        counts, parameters = torch.from_numpy(stats["leaving"]).to(self.log_Ps), list(self.parameters())
        scale = counts.sum().clamp_min(1.0)

        def objective(x: FloatArray) -> tuple[float, FloatArray]:
            with torch.no_grad():
                vector_to_parameters(torch.from_numpy(x).to(scale.device), parameters)
            loss = self.loss(counts) / scale  # per step, so that one first step size suits any amount of data
            gradients = torch.autograd.grad(loss, parameters)
            return loss.item(), parameters_to_vector(gradients).cpu().numpy()

        start = parameters_to_vector(parameters).detach().cpu().numpy()
        # SciPy's L-BFGS, because importing torch.optim takes seconds.
        found = optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": self.steps})
        with torch.no_grad():
            vector_to_parameters(torch.from_numpy(found.x).to(scale.device), parameters)


class InputChain(VaryingKernel):
    """Markov chain with covariates, whose ``weights`` (K, K, d), w, are zero on the diagonal.

    ``ridge`` is the strength of a Gaussian prior on them, in nats: inputs are standardised.
    """

    weights: Tensor
    bias: Tensor

    def __init__(self, n_intentions: int, n_inputs: int, *, ridge: float = 1.0) -> None:
        super().__init__(n_intentions, n_inputs)
        K, self.ridge = n_intentions, ridge
        self.register_buffer("weights", torch.zeros(K, K, n_inputs, dtype=torch.float64))
        self.register_buffer("bias", torch.log_softmax(sticky(K).double(), dim=-1))

    def biases_at(self, before: Tensor | None) -> Tensor:
        """Logits without inputs, (K, K) or, where states matter, (…, K, K)."""
        return self.bias

    def log_kernels(self, before: Tensor | None, inputs: Tensor | None) -> Tensor:
        """Log softmax_k(B_jk + w_jk · x)."""
        assert inputs is not None
        pull = torch.einsum("...d,jkd->...jk", inputs.double(), self.weights)
        return torch.log_softmax(self.biases_at(before) + pull, dim=-1)

    def effects(self) -> FloatArray:
        """The weights."""
        return np.asarray(self.weights.cpu().numpy(), dtype=np.float64)

    @torch.no_grad()
    def leaving(self, inputs: npt.ArrayLike) -> FloatArray:
        """Probability of leaving each intention at inputs (m, d), (m, K), where the state is not known."""
        kernel = self.log_kernels(None, torch.as_tensor(np.asarray(inputs, dtype=np.float64)).to(self.bias)).exp()
        return np.asarray(1.0 - kernel.diagonal(dim1=-2, dim2=-1).cpu().numpy(), dtype=np.float64)

    @torch.no_grad()
    def take_over(self, chain: MarkovChain) -> None:
        """Begin as a given Markov chain, whatever the inputs."""
        super().take_over(chain)
        self.bias.copy_(floored(chain.kernel).log())
        self.weights.zero_()

    def successors(self, j: int) -> list[int]:
        """Intentions that may follow j, itself left out."""
        return [k for k in range(self.n_intentions) if k != j]

    def statistics(self, data: Prepared, posterior: Posterior) -> Stats:
        """Expected counts of first steps; inputs, the state before and expected moves of every step."""
        assert posterior.pairwise is not None
        inputs = np.asarray(self.inputs_in(data.demos.observations), dtype=np.float64)
        return Stats(
            initial=first_counts(data, posterior), rows=Rows(inputs, states_before(data.demos), posterior.pairwise)
        )

    @torch.no_grad()
    def update(self, stats: Stats) -> None:
        """Initial distribution in closed form, one weighted multinomial regression per intention."""
        self.initial.copy_(first_intentions(stats["initial"]))
        inputs, before, pairs = stats["rows"].joined()
        for j in range(self.n_intentions):
            others = self.successors(j)
            if others:
                found = self._regress(j, others, pairs[:, j][:, [j, *others]], inputs, before)
                self.weights[j, others] = torch.from_numpy(found.slopes).to(self.weights)

    def _regress(self, j: int, others: list[int], targets: FloatArray, inputs: FloatArray, before: IntArray) -> Logit:
        """Maximise Σ_t Σ_k ξ_t(j, k) log P(k | j, x_t) − ½ ridge |w_j|² from the present weights; sets the biases.

        ``targets`` (n, 1 + len(others)) are expected moves of every step, staying first.
        """
        bias = (self.bias[j] - self.bias[j, j]).cpu().numpy()[others]
        start = Logit(bias[None], self.weights[j].cpu().numpy()[others])
        found = fit_logit(start, inputs, np.zeros(len(inputs), np.int64), targets, ridge=self.ridge)
        self.bias[j, j] = 0.0
        self.bias[j, others] = torch.from_numpy(found.biases[0]).to(self.bias)
        return found


class StateInputChain(InputChain):
    """Kernel per state and pair of intentions, with covariates whose effects all states share."""

    biases: Tensor

    def __init__(
        self, n_states: int, n_intentions: int, n_inputs: int, *, shrinkage: float = 8.0, ridge: float = 1.0
    ) -> None:
        super().__init__(n_intentions, n_inputs, ridge=ridge)
        self.n_states, self.shrinkage = n_states, shrinkage
        self.register_buffer("biases", self.bias.expand(n_states, -1, -1).clone())

    def biases_at(self, before: Tensor | None) -> Tensor:
        """Those of each state; a state that the fit never named has those of all."""
        if before is None:
            return self.bias
        table = torch.cat([self.biases, self.bias.unsqueeze(0)])
        rows = table.index_select(0, before.reshape(-1).clamp_max(self.n_states))
        return rows.reshape(*before.shape, *self.bias.shape)

    @torch.no_grad()
    def take_over(self, chain: MarkovChain) -> None:
        """Begin as a given Markov chain, in every state and whatever the inputs."""
        super().take_over(chain)
        self.biases.copy_(self.bias.expand_as(self.biases))

    def _regress(self, j: int, others: list[int], targets: FloatArray, inputs: FloatArray, before: IntArray) -> Logit:
        """The kernel without the state, then that of every state, shrunk towards it, with the shared effects."""
        weights = self.weights[j].cpu().numpy()[others]
        biases = (self.biases[:, j] - self.biases[:, j, j : j + 1])[:, others].cpu().numpy()
        pooled = super()._regress(j, others, targets, inputs, before)
        at_mean = np.exp(pooled.log_proba(np.zeros((1, self.n_inputs)), np.zeros(1, np.int64)))
        prior = np.broadcast_to(self.shrinkage * at_mean, (self.n_states, 1 + len(others)))
        states = np.minimum(before, self.n_states - 1)
        found = fit_logit(Logit(biases, weights), inputs, states, targets, ridge=self.ridge, prior=prior)
        self.biases[:, j, j] = 0.0
        self.biases[:, j, others] = torch.from_numpy(found.biases).to(self.biases)
        return found
