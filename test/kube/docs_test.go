package kube_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/internal/kubelocal"
	"github.com/kinesin-io/kinesin/internal/loopback"
	"github.com/kinesin-io/kinesin/test/harness"
	"github.com/kinesin-io/kinesin/test/kubelet"
)

const guide = "../../docs/how-to/kubernetes.md"

// commandsMin is what a guide has at least that takes an operator through all of it.
const commandsMin = 20

// docsNamespace is that of the guide.
const docsNamespace = "kinesin"

// notRun are the beginnings of commands for which there is nothing here: no nodes that could forward ports or keep
// logs. The guide's rig forwards a port instead.
var notRun = []string{"kubectl --namespace kinesin port-forward ", "kubectl --namespace kinesin logs "}

// guideCommandMax bounds one command of the guide, rollouts included.
const guideCommandMax = 3 * time.Minute

// TestGuide runs the commands of docs/how-to/kubernetes.md one after the other, as they stand there.
func TestGuide(t *testing.T) {
	text, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	g := newGuide(t)
	ran := 0
	for _, block := range fences(string(text)) {
		switch block.lang {
		case "yaml":
			if name, is := strings.CutPrefix(block.lines[0], "# file: "); is {
				g.write(name, strings.Join(block.lines, "\n")+"\n")
			}
		case "console":
			for _, command := range block.commands() {
				g.run(command)
				ran++
			}
		}
	}
	if ran < commandsMin {
		t.Errorf("%d commands found in %s, want at least %d", ran, guide, commandsMin)
	}
}

// guideRig is a machine with the tools of an operator, and a cluster.
type guideRig struct {
	t      *testing.T
	dir    string
	env    []string
	prefix string
	kube   *kubernetes.Clientset
	kept   []string // export commands
	port   string   // that is forwarded: its address
}

func newGuide(t *testing.T) *guideRig {
	t.Helper()
	plane := kubelocal.Start(t)
	local := awslocal.Start(t)
	tools, err := loopback.Installed("helm")
	if err != nil {
		t.Fatal(err)
	}
	g := &guideRig{t: t, dir: t.TempDir(), prefix: local.Prefix(t), kube: plane.Client()}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"deploy": filepath.Join(root, "deploy"), "bin": filepath.Dir(harness.Kinesin(t))} {
		if err := os.Symlink(target, filepath.Join(g.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	g.env = append(g.env, "PATH="+tools+":"+os.Getenv("PATH"), "KUBECONFIG="+plane.Kubeconfig(), "HOME="+t.TempDir())
	g.env = append(g.env, local.Env()...)
	g.forward()
	k, err := kubelet.Start(t.Context(), kubelet.Options{Plane: plane, Namespace: docsNamespace, Program: harness.Kinesin(t), Env: local.Env()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, p := range k.Pods() {
				t.Logf("pod %s (ready %v) said:\n%s", p.Name, p.Ready(), p.Log())
			}
		}
		g.forget(context.WithoutCancel(t.Context())) // while there is who ends the pods
		k.Close()
	})
	return g
}

// forget waits until the namespace is gone, which others want to make.
func (g *guideRig) forget(ctx context.Context) {
	namespaces := g.kube.CoreV1().Namespaces()
	for deadline := time.Now().Add(harness.SettleMax); ; time.Sleep(pollEvery) {
		err := namespaces.Delete(ctx, docsNamespace, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return
		}
		if time.Now().After(deadline) {
			g.t.Errorf("namespace %s is left behind: %v", docsNamespace, err)
			return
		}
	}
}

func (g *guideRig) write(name, text string) {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, name), []byte(g.here(text)), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// prod is the guide's prefix of tables and queues, and its mark that nothing else there has.
var prod = regexp.MustCompile(`\bprod\b`)

// here is a text with the tables and queues of this test.
func (g *guideRig) here(text string) string { return prod.ReplaceAllString(text, g.prefix) }

// forward listens at a free port, in place of the guide's, until the test ends. A connection goes to a pod that is ready
// then, and is closed if there is none.
func (g *guideRig) forward() {
	g.t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(g.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		g.t.Fatal(err)
	}
	g.port = listener.Addr().String()
	g.t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go g.relay(from)
		}
	}()
}

func (g *guideRig) relay(from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := (&net.Dialer{}).DialContext(g.t.Context(), "tcp", g.address())
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close() // and ends the other way
	}()
	_, _ = io.Copy(from, to)
}

// run runs a command, fails the test unless it succeeds, and returns what it printed.
func (g *guideRig) run(command string) string {
	g.t.Helper()
	for _, beginning := range notRun {
		if strings.HasPrefix(command, beginning) {
			g.t.Logf("not run here: %s", command)
			return ""
		}
	}
	if strings.HasPrefix(command, "export ") {
		g.kept = append(g.kept, command)
		return ""
	}
	command, apart := strings.CutSuffix(command, " &")
	script := strings.Join(append(g.kept, g.here(command)), "\n")
	script = strings.ReplaceAll(script, "127.0.0.1:7070", g.port)
	p := harness.Start(g.t, harness.Command{Path: "/bin/bash", Args: []string{"-euo", "pipefail", "-c", "cd " + g.dir + "\n" + script}, Env: g.env})
	if apart {
		return "" // it ends with the test
	}
	done := p.Result(guideCommandMax)
	g.t.Logf("$ %s\n%s%s", command, done.Stdout, done.Stderr)
	if done.Code != 0 {
		g.t.Fatalf("exit status %d: %s", done.Code, command)
	}
	return done.Stdout
}

// address is that of a ready pod; empty if there is none.
func (g *guideRig) address() string {
	pods, err := g.kube.CoreV1().Pods(docsNamespace).List(g.t.Context(), metav1.ListOptions{})
	if err != nil {
		return ""
	}
	for _, p := range pods.Items {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil {
				return p.Status.PodIP + ":7070"
			}
		}
	}
	return ""
}

// fence is a block of code of a page.
type fence struct {
	lang  string
	lines []string
}

func fences(page string) []fence {
	var all []fence
	inside := false
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		switch lang, is := strings.CutPrefix(line, "```"); {
		case is && !inside:
			all = append(all, fence{lang: lang})
			inside = true
		case is:
			inside = false
		case inside:
			last := &all[len(all)-1]
			last.lines = append(last.lines, line)
		}
	}
	return all
}

// commands are the lines after a prompt, each with those that it goes on in.
func (f fence) commands() []string {
	var all []string
	for i := 0; i < len(f.lines); i++ {
		command, is := strings.CutPrefix(f.lines[i], "$ ")
		if !is {
			continue
		}
		for strings.HasSuffix(command, `\`) && i+1 < len(f.lines) {
			i++
			command += "\n" + f.lines[i]
		}
		all = append(all, command)
	}
	return all
}
