package dist

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/loopback"
)

// folder is a folder with the packages of the clients, in which commands find only those and the system.
type folder struct {
	t   *testing.T
	dir string
	env []string
}

func newFolder(t *testing.T, env ...string) folder {
	t.Helper()
	files := dist(t)
	port, err := loopback.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	f := folder{t: t, dir: t.TempDir()}
	env = append(env, fmt.Sprintf("KINESIN_LISTEN=127.0.0.1:%d", port))
	f.env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "KINESIN_") || strings.HasPrefix(v, "PYTHONPATH=") }), env...)
	f.run("cp '" + files + "'/*.whl '" + files + "'/*.tgz '" + files + "'/kinesin-*.tar.gz .")
	return f
}

// run runs a script of sh in the folder, and returns what it prints.
func (f folder) run(script string) string {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), "sh", "-euc", script)
	cmd.Dir, cmd.Env = f.dir, f.env
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		f.t.Fatalf("%s: %v\n%s%s", script, err, out, &said)
	}
	return string(out)
}

// install returns the commands of a section of docs/start/install.md.
func install(t *testing.T, section string) string {
	t.Helper()
	_, rest, _ := strings.Cut(read(t, filepath.Join(root, "docs", "start", "install.md")), "\n## "+section+"\n")
	block := regexp.MustCompile("(?s)```sh\n(.*?)```").FindStringSubmatch(rest)
	if block == nil {
		t.Fatalf("install.md has no commands under %s", section)
	}
	if runtime.GOARCH == "arm64" {
		return strings.ReplaceAll(block[1], "x86_64", "aarch64")
	}
	return block[1]
}

// hatchling is what pip makes wheels of sources with. Its version is fixed, because each writes a little more into a wheel.
const hatchling = "hatchling==1.33.0"

// sameWheels compares the files and the metadata of two wheels.
const sameWheels = `
import sys, zipfile
from importlib.metadata import PathDistribution
from packaging.requirements import Requirement

def seen(wheel):
    names = zipfile.Path(wheel)
    info, = (p for p in names.iterdir() if p.name.endswith(".dist-info"))
    meta = PathDistribution(info).metadata
    fields = {k: sorted(str(Requirement(v)) if k == "Requires-Dist" else v for v in meta.get_all(k)) for k in meta if k != "Metadata-Version"}
    return sorted(zipfile.ZipFile(wheel).namelist()), fields, meta.get_payload(), (info / "entry_points.txt").read_text().split()

ours, theirs = map(seen, sys.argv[1:])
assert ours == theirs, (ours, theirs)
`

// TestPython installs the client and the program as install.md says. A task of 30 days runs on the program of the wheel. hatchling makes
// the same wheel of the sources.
func TestPython(t *testing.T) {
	f := newFolder(t)
	if exec.CommandContext(t.Context(), "python3", "-c", "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))").Run() != nil {
		t.Skip("NOT RUN: there is no Python 3.10 with venv on the PATH")
	}
	t.Parallel()
	if out := f.run(install(t, "Python")); !strings.Contains(out, "success") {
		t.Errorf("the demo shows no success:\n%s", out)
	}
	const activate = ". venv/bin/activate; "
	for _, program := range []string{"kinesin", "python -m kinesin_server"} {
		if got := strings.Fields(f.run(activate + program + " version")); got[1] != version(t) {
			t.Errorf("%s version: %v", program, got)
		}
	}
	f.run(activate + "pip install --quiet --no-index 'kinesin[server]'") // which all of it is
	write(t, filepath.Join(f.dir, "task.py"), `
import kinesin, kinesin.testing, kinesin_server

app, greeted = kinesin.plain.App("http://127.0.0.1:7070"), []

@app.handler("greet")
def greet(task: kinesin.Task[str]):
    greeted.append(task.payload)

assert kinesin.testing.program() == str(kinesin_server.path())
with kinesin.testing.Server() as server, server.worker(app):
    greet.schedule("Ada", delay="30d")
    server.advance("30d")
print("greeted", *greeted)
`, 0o644)
	if got := f.run(activate + "python task.py"); got != "greeted Ada\n" {
		t.Errorf("the program prints %q", got)
	}

	write(t, filepath.Join(f.dir, "same.py"), sameWheels, 0o644)
	f.run(activate + "pip install --quiet " + hatchling + "; pip wheel --quiet --no-index --no-build-isolation --no-deps --wheel-dir theirs ./kinesin-" + version(t) + ".tar.gz; " +
		"python same.py kinesin-*.whl theirs/kinesin-*.whl")
}

// TestNPM installs the client and the program as install.md says, with nothing else than the files of the release. A task of 30 days runs
// on the program.
func TestNPM(t *testing.T) {
	f := newFolder(t, "npm_config_offline=true")
	if exec.CommandContext(t.Context(), "sh", "-c", `node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' && command -v npm`).Run() != nil {
		t.Skip("NOT RUN: there is no Node 20 with npm on the PATH")
	}
	t.Parallel()
	if out := f.run(install(t, "Node")); !strings.Contains(out, "success") {
		t.Errorf("the demo shows no success:\n%s", out)
	}
	if got := strings.Fields(f.run("npx kinesin version")); got[1] != version(t) {
		t.Errorf("npx kinesin version: %v", got)
	}
	write(t, filepath.Join(f.dir, "task.mjs"), `
import { Kinesin } from "kinesin";
import { testServer } from "kinesin/testing";

const app = new Kinesin("http://127.0.0.1:7070", { log() {} });
const greet = app.handler("greet", (task) => console.log("greeted", task.payload));
const server = await testServer();
await server.work(app);
await greet.schedule("Ada", { delay: "30d" });
await server.advance("30d");
await server.close();
`, 0o644)
	if got := f.run("node task.mjs"); got != "greeted Ada\n" {
		t.Errorf("the program prints %q", got)
	}
}
