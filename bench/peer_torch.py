#!/usr/bin/env python3
"""The models of bench/whole_step.cpp in PyTorch, on the same samples and cores, and the ratio of the two.

  bench/peer_torch.py --ours PATH/bench.whole_step [--venv DIR] [--models dlrm,deepfm] [--dims 16,64] [--batches 2048,16384]
                      [--cores 1,2] [--json FILE] [--quick]

The first run makes a virtual environment and installs PyTorch from the package registry into it. PyTorch is measured at its
best of: an EmbeddingBag a table, or one for all tables (an offset a table); with and without torch.compile of the dense part;
gradients of the embeddings are sparse, rows are trained by Adagrad, dense parameters by Adam. "Outside" is the time of a step
less that of the products of its linear layers (from torch.profiler; ours from the processor time of each product).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def into_environment(folder):
    """Runs this script again with the Python of the virtual environment, which is made when it is not there."""
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    if subprocess.run([python, "-c", "import torch, numpy"], capture_output=True).returncode != 0:
        print("installing PyTorch into", folder, file=sys.stderr)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-cache-dir", "torch", "numpy"], check=True)
    os.execv(python, [str(python), __file__, *sys.argv[1:], "--inside"])


def numbers(text):
    return [int(n) for n in text.split(",")]


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--ours", required=True, type=Path)
    p.add_argument("--venv", type=Path, default=Path.home() / ".cache" / "nestpipe" / "torch")
    p.add_argument("--models", default="dlrm,deepfm")
    p.add_argument("--dims", type=numbers, default=[16, 64])
    p.add_argument("--batches", type=numbers, default=[2048, 16384])
    p.add_argument("--cores", type=numbers, default=[1, 2])
    p.add_argument("--samples", type=Path, help="a file written by bench.whole_step --write-samples")
    p.add_argument("--seconds", type=float, default=4.0, help="of measured training for each setting")
    p.add_argument("--json", type=Path)
    p.add_argument("--quick", action="store_true", help="fewer steps, and no torch.compile")
    p.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    return p.parse_args()


def load(path):
    import numpy as np

    with open(path, "rb") as f:
        rows, features, dense = (int(n) for n in np.fromfile(f, dtype="<u8", count=3))
        keys = np.fromfile(f, dtype="<i8", count=rows * features).reshape(features, rows)
        x = np.fromfile(f, dtype="<f4", count=rows * dense).reshape(rows, dense)
        y = np.fromfile(f, dtype="<f4", count=rows)
    return keys, x, y


def mlp(torch, inputs, widths, last):
    layers = []
    for i, w in enumerate(widths):
        layers.append(torch.nn.Linear(inputs, w))
        if i + 1 < len(widths) or last:
            layers.append(torch.nn.ReLU())
        inputs = w
    return torch.nn.Sequential(*layers)


def make_models(torch):
    class dlrm(torch.nn.Module):
        extra = 0  # floats of a row beside the embedding

        def __init__(self, features, dense, dim):
            super().__init__()
            self.bottom = mlp(torch, dense, [512, 256, dim], True)
            pairs = (features + 1) * features // 2
            self.top = mlp(torch, dim + pairs, [512, 256, 1], False)
            i, j = torch.tril_indices(features + 1, features + 1, -1)
            self.register_buffer("pairs", i * (features + 1) + j)

        def forward(self, x, e):  # e (n, features, dim)
            z = self.bottom(x)
            v = torch.cat([z.unsqueeze(1), e], dim=1)
            dots = torch.bmm(v, v.transpose(1, 2)).flatten(1)
            return self.top(torch.cat([z, dots.index_select(1, self.pairs)], dim=1)).squeeze(1)

    class deepfm(torch.nn.Module):
        extra = 1  # the linear weight

        def __init__(self, features, dense, dim):
            super().__init__()
            self.linear = torch.nn.Linear(dense, 1)
            self.deep = mlp(torch, features * dim + dense, [512, 256, 1], False)

        def forward(self, x, e):
            w, v = e[:, :, 0], e[:, :, 1:]
            s = v.sum(1)
            pairs = 0.5 * (s * s - (v * v).sum(1)).sum(1)
            deep = self.deep(torch.cat([v.flatten(1), x], dim=1)).squeeze(1)
            return self.linear(x).squeeze(1) + w.sum(1) + pairs + deep

    return {"dlrm": dlrm, "deepfm": deepfm}


class torch_side:
    """One setting, ready to step."""

    def __init__(self, torch, model, dim, batch, data, one_table, compiled):
        self.torch = torch
        keys, x, y = data
        features, rows = keys.shape
        kind = make_models(torch)[model]
        self.dense = kind(features, x.shape[1], dim)
        width = dim + kind.extra
        sizes = [1_000_000 if f % 2 == 0 else 100 for f in range(features)]
        if one_table:
            first = [sum(sizes[:f]) for f in range(features)]
            tables = [torch.nn.EmbeddingBag(sum(sizes), width, mode="sum", sparse=True)]
        else:
            tables = [torch.nn.EmbeddingBag(n, width, mode="sum", sparse=True) for n in sizes]
        for t in tables:
            torch.nn.init.uniform_(t.weight, -0.05, 0.05)
        self.tables = torch.nn.ModuleList(tables)
        self.rows_optimizer = torch.optim.Adagrad(self.tables.parameters(), lr=0.01)
        try:
            self.dense_optimizer = torch.optim.Adam(self.dense.parameters(), lr=0.001, fused=True)
        except (RuntimeError, ValueError):
            self.dense_optimizer = torch.optim.Adam(self.dense.parameters(), lr=0.001, foreach=True)
        self.forward = torch.compile(self.dense) if compiled else self.dense
        self.loss = torch.nn.BCEWithLogitsLoss()
        self.batches = []
        for b in range(rows // batch):
            part = slice(b * batch, (b + 1) * batch)
            k = torch.from_numpy(keys[:, part].copy())
            if one_table:
                k = (k + torch.tensor(first).unsqueeze(1)).t().contiguous().view(-1)  # sample-major: bags of one id
                ids = [k]
            else:
                ids = list(k)
            self.batches.append((torch.from_numpy(x[part].copy()), ids, torch.from_numpy(y[part].copy())))
        self.offsets = torch.arange(batch * (features if one_table else 1))
        self.shape = (batch, features, width)
        self.at = 0

    def step(self):
        x, ids, y = self.batches[self.at % len(self.batches)]
        self.at += 1
        pooled = [t(k, self.offsets) for t, k in zip(self.tables, ids)]
        e = pooled[0].view(self.shape) if len(pooled) == 1 else self.torch.stack(pooled, dim=1)
        loss = self.loss(self.forward(x, e), y)
        self.rows_optimizer.zero_grad(set_to_none=True)
        self.dense_optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.rows_optimizer.step()
        self.dense_optimizer.step()

    def measure(self, seconds):
        for _ in range(3):
            self.step()
        times = []
        end = time.perf_counter() + seconds
        while len(times) < 5 or (time.perf_counter() < end and len(times) < 400):
            begin = time.perf_counter()
            self.step()
            times.append(time.perf_counter() - begin)
        return sorted(times)[len(times) // 2]

    def products(self, steps=4):
        """Seconds a step in matrix products of linear layers."""
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU]) as p:
            for _ in range(steps):
                self.step()
        wanted = ("aten::addmm", "aten::mm", "mkldnn::_linear_pointwise", "aten::mkldnn_linear", "mkl::_mkl_linear")
        total = sum(e.self_cpu_time_total for e in p.key_averages() if e.key in wanted)
        return 1e-6 * total / steps


def torch_best(torch, model, dim, batch, data, seconds, quick):
    best = None
    for one_table in (True, False):
        for compiled in ((False,) if quick else (False, True)):
            try:
                side = torch_side(torch, model, dim, batch, data, one_table, compiled)
                step = side.measure(seconds / 4)
            except Exception as e:  # torch.compile needs a compiler that works with it
                print(f"  left out (one table {one_table}, compiled {compiled}): {str(e).splitlines()[0]}", file=sys.stderr)
                continue
            setting = ("one EmbeddingBag" if one_table else "a table each") + (", compiled" if compiled else "")
            print(f"  PyTorch, {setting}: {1e3 * step:.1f} ms", file=sys.stderr)
            if best is None or step < best["step"]:
                best = {"step": step, "outside": step - side.products(), "setting": setting}
    return best


def ours_best(a, model, dim, batch, cores, seconds):
    """The settings worth trying are few: how the batch is cut, and whether two cores are two ranks or one rank's threads."""
    best = None
    for ranks, threads in [(1, 1)] if cores == 1 else [(2, 1), (1, 2)]:
        for micro in (1, 2, 4, 8):
            if micro * ranks < cores:
                continue
            for schedule in ("sequential", "nested"):
                steps = max(8, int(seconds / 8 * 50_000 / batch))
                command = [a.ours, "--model", model, "--dim", dim, "--batch", batch, "--cores", cores, "--ranks", ranks, "--threads", threads,
                           "--micro-batches", micro, "--schedule", schedule, "--steps", steps, "--warm-up", 4]
                done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
                if done.returncode != 0:
                    print("  left out:", done.stderr.strip(), file=sys.stderr)
                    continue
                r = json.loads(done.stdout)
                if best is None or r["step_ms"] < best["step_ms"]:
                    best = r
    return best


def main():
    a = arguments()
    if not a.inside:
        into_environment(a.venv)
    cores_here = sorted(os.sched_getaffinity(0))
    samples = a.samples
    if samples is None:
        samples = Path(tempfile.mkdtemp()) / "samples.bin"
        subprocess.run([a.ours, "--write-samples", samples], check=True)
    results = []
    print(f"{'model':8} {'dim':>4} {'batch':>6} {'cores':>5} | {'PyTorch/s':>10} {'ours/s':>10} {'ratio':>6} | {'outside ms':>10} {'ours':>8} {'share':>6} | PyTorch; ours")
    for cores in a.cores:
        os.sched_setaffinity(0, cores_here[:cores])
        import torch

        torch.set_num_threads(cores)
        if not results:
            torch.set_num_interop_threads(1)  # only before any work
        data = load(samples)
        for model in a.models.split(","):
            for dim in a.dims:
                for batch in a.batches:
                    seconds = a.seconds / (4 if a.quick else 1)
                    peer = torch_best(torch, model, dim, batch, data, seconds, a.quick)
                    ours = ours_best(a, model, dim, batch, cores, seconds)
                    row = {"model": model, "dim": dim, "batch": batch, "cores": cores, "torch_samples_per_second": batch / peer["step"],
                           "torch_outside_ms": 1e3 * peer["outside"], "torch_setting": peer["setting"], "ours": ours,
                           "ratio": ours["samples_per_second"] * peer["step"] / batch, "outside_share": ours["outside_ms"] / (1e3 * peer["outside"])}
                    results.append(row)
                    print(f"{model:8} {dim:4} {batch:6} {cores:5} | {batch / peer['step']:10.0f} {ours['samples_per_second']:10.0f} {row['ratio']:6.2f} | "
                          f"{1e3 * peer['outside']:10.2f} {ours['outside_ms']:8.2f} {row['outside_share']:6.2f} | {peer['setting']}; "
                          f"{ours['ranks']} x {ours['threads']} threads, {ours['micro_batches']} micro-batches, {ours['schedule']}", flush=True)
    if a.json:
        a.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
