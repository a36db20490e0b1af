"""Chains whose kernel reads the state: intentions that end at places (drinking ends at the water port).

    SWIRL (Ke et al. 2025)     P(z_{t+1}=k | z_t=j, s_t) = softmax_k(log_Ps[j, k] + g_k(s_t))
    per state and pair         P(z_{t+1}=k | z_t=j, s_t=s) = (n_sjk + m P_jk) / (n_sj + m)

SWIRL's g = W2ᵀ·sigmoid(W1[s] + b1) + b2 ("mlp", the labyrinth of their paper) or a free table ("table", their
gridworld) says where a state leads to, whatever the intention was. A kernel per state *and* pair of intentions says
which intention ends there: the goal that is reached, and no other. It is a table of expected counts, shrunk towards the
kernel that knows no state by m steps, as policies are shrunk towards shorter histories. In continuous worlds every
intention ends at one place (`places`). `recurrent` reads more: the whole history.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import numpy.typing as npt
import torch
from scipy import optimize
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from prism_irl.core.stats import Stats
from prism_irl.data.batching import Batch, Prepared
from prism_irl.errors import InputError
from prism_irl.switching.base import Posterior
from prism_irl.switching.chain import FLOOR, Chain, Previous, sticky
from prism_irl.switching.inference import infer_steps
from prism_irl.switching.inputs import first_counts, first_intentions, states_before
from prism_irl.switching.markov import MarkovChain
from prism_irl.switching.networks import Carry, SwitchingModule
from prism_irl.switching.options import KernelName

SMALLEST = 1e-3  # a kernel entry of nearly zero would take the gradient forever to revive


class StateKernel(SwitchingModule, Chain):
    """What both kinds share: a kernel per state that the step leaves from."""

    reads_pairs = True
    n_states: int
    initial: Tensor

    @abstractmethod
    def state_kernels(self) -> Tensor:
        """Log P(z_{t+1}=k | z_t=j, s_t=s), (S + 1, K, K); the last is for a state that the fit never named."""

    def log_initial(self) -> Tensor:
        """Log of the initial distribution."""
        return self.initial.log()

    def log_kernel(self, batch: Batch) -> Tensor:
        """Kernel of entry t, read from s_{t-1}, (B, T, K, K)."""
        before = torch.cat([batch.states[:, :1], batch.states[:, :-1]], dim=1)
        return self._at(before.reshape(-1)).reshape(*before.shape, self.n_intentions, self.n_intentions)

    def stream_kernel(
        self, states: Tensor, previous: Previous | None, observations: Tensor | None, carry: Carry
    ) -> tuple[Tensor, Carry]:
        """Kernel of the state before; at the first step it is not read."""
        return self._at(states if previous is None else previous.states), carry

    def _at(self, states: Tensor) -> Tensor:
        return self.state_kernels().index_select(0, states.clamp_max(self.n_states))

    @torch.no_grad()
    def expectation(self, data: Prepared, log_emission: Tensor, *, online: bool = True) -> Posterior:
        """Forward–backward over ragged data as it lies, kernels read from a table; in padded batches elsewhere."""
        found = None
        if self.initial.device.type == "cpu":
            before = np.empty(data.demos.n_steps, np.int64)
            before[:1], before[1:] = 0, np.minimum(data.demos.states[:-1], self.n_states)  # never read at first steps
            kernel = self.state_kernels().detach().double().exp().index_select(0, torch.from_numpy(before))
            arrays = self.log_initial().numpy(), kernel.numpy(), log_emission.double().numpy()
            found = infer_steps(*arrays, data.demos.offsets, online=online)
        return super().expectation(data, log_emission, online=online) if found is None else found

    def statistics(self, data: Prepared, posterior: Posterior) -> Stats:
        """Expected counts of first steps (K,), and of the moves of steps that leave each state, (S, K, K)."""
        assert posterior.pairwise is not None
        K, S = self.n_intentions, self.n_states
        before = np.minimum(states_before(data.demos), S)
        columns = [
            np.bincount(before, column, minlength=S + 1)[:S] for column in posterior.pairwise.reshape(-1, K * K).T
        ]
        leaving = np.asarray(np.stack(columns, axis=1).reshape(S, K, K), np.float64)
        return Stats(initial=first_counts(data, posterior), leaving=leaving)

    def _take_initial(self, chain: MarkovChain) -> None:
        self.initial.copy_(chain.initial.clamp_min(SMALLEST) / chain.initial.clamp_min(SMALLEST).sum())


class StatePairChain(StateKernel):
    """A kernel per state and pair of intentions, updated in closed form.

    Parameters
    ----------
    n_states, n_intentions : int
    shrinkage : float
        Steps m that the kernel without the state is worth.
    """

    distributions = ("initial", "kernel", "kernels")
    kernel: Tensor
    kernels: Tensor

    def __init__(self, n_states: int, n_intentions: int, *, shrinkage: float = 8.0) -> None:
        super().__init__()
        self.n_states, self.n_intentions, self.shrinkage = n_states, n_intentions, shrinkage
        self.register_buffer("initial", torch.full((n_intentions,), 1.0 / n_intentions, dtype=torch.float64))
        self.register_buffer("kernel", torch.softmax(sticky(n_intentions).double(), dim=-1))
        self.register_buffer("kernels", self.kernel.expand(n_states, -1, -1).clone())

    def state_kernels(self) -> Tensor:
        """Log of the table, and of the kernel without the state."""
        return torch.cat([self.kernels, self.kernel.unsqueeze(0)]).log()

    @torch.no_grad()
    def take_over(self, chain: MarkovChain) -> None:
        """Begin as a given Markov chain, in every state."""
        floored = chain.kernel.clamp_min(SMALLEST)
        self.kernel.copy_(floored / floored.sum(-1, keepdim=True))
        self.kernels.copy_(self.kernel.expand_as(self.kernels))
        self._take_initial(chain)

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

    Parameters
    ----------
    n_states, n_intentions : int
    kind : {"mlp", "table"}
        How g reads the state. A table is convex and free; the network shares its hidden units between states.
    hidden : int
        Hidden units of the network, 32 in the paper.
    ridge : float
        Strength of a Gaussian prior on the weights, in nats: states that are hardly ever left say little.
    steps : int
        L-BFGS iterations of one M-step at most, warm-started: a generalised EM.
    """

    def __init__(
        self,
        n_states: int,
        n_intentions: int,
        *,
        kind: KernelName = "mlp",
        hidden: int = 32,
        ridge: float = 0.1,
        steps: int = 25,
    ) -> None:
        super().__init__()
        if kind not in ("mlp", "table"):
            raise InputError(f"The kernel is {kind!r}; choose mlp or table.")
        self.n_states, self.n_intentions, self.kind, self.ridge, self.steps = n_states, n_intentions, kind, ridge, steps
        K = n_intentions
        self.register_buffer("initial", torch.full((K,), 1.0 / K, dtype=torch.float64))
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

    # -- the kernel ------------------------------------------------------------------------------------------------

    def drive(self) -> Tensor:
        """g_k(s), (S, K): what each state adds to the logit of each next intention."""
        if self.kind == "table":
            return self.table
        return torch.sigmoid(self.W1 + self.b1) @ self.W2 + self.b2

    def state_kernels(self) -> Tensor:
        """Log P(z_{t+1}=k | z_t=j, s_t=s), (S + 1, K, K); the last is for a state that the fit never named."""
        drive = self.drive()
        drive = torch.cat([drive, drive.mean(0, keepdim=True)])
        return torch.log_softmax(self.log_Ps + drive.unsqueeze(1), dim=-1)

    # -- the M-step ------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def take_over(self, chain: MarkovChain) -> None:
        """Begin as a given Markov chain, with g as it is."""
        self.log_Ps.copy_(chain.kernel.clamp_min(SMALLEST).log())
        self._take_initial(chain)

    def loss(self, counts: Tensor) -> Tensor:
        """Negative expected log-likelihood of the transitions (S, K, K), minus the log prior, in nats."""
        expected = (counts * self.state_kernels()[: self.n_states]).sum()
        return 0.5 * self.ridge * sum((p * p).sum() for p in self.parameters()) - expected

    def update(self, stats: Stats) -> None:
        """Initial distribution in closed form, kernel by L-BFGS on counts per state, whatever n is."""
        self.initial.copy_(first_intentions(stats["initial"]))
        self._climb(torch.from_numpy(stats["leaving"]).to(self.log_Ps))

    def _climb(self, counts: Tensor) -> None:
        parameters = list(self.parameters())
        scale = counts.sum().clamp_min(1.0)

        def objective(x: npt.NDArray[np.float64]) -> tuple[float, npt.NDArray[np.float64]]:
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
