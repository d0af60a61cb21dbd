package kube

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/kinesin-io/kinesin/internal/clock"
)

func TestMain(m *testing.M) {
	// client-go's brake on errors is one for the whole process: in a bubble it waits for the time outside.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] //nolint:reassign // it is there for that
	goleak.VerifyTestMain(m)
}

func silent() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (a *api) open() (*Cluster, error) {
	return Open(a.t.Context(), Config{Pod: own, Namespace: namespace, Clock: clock.Real(), Log: silent(), rest: a.config()})
}

// inCluster runs a test in a bubble, beside an API server that has the Deployment's two sets and our pod.
func inCluster(t *testing.T, f func(a *api)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(t)
		a.deployment()
		a.pod(own, false)
		f(a)
		a.Close()
	})
}

func TestOpenFindsTheFleet(t *testing.T) {
	inCluster(t, func(a *api) {
		t := a.t
		c, err := a.open()
		if err != nil {
			t.Fatal(err)
		}
		if c.Pod() != own || c.Group() != "prod/Deployment/kinesin" || c.selector != "app=kinesin" || c.owner != fleetUID {
			t.Errorf("%s, %s, %s, %s", c.Pod(), c.Group(), c.selector, c.owner)
		}
	})
}

func TestOpenWithOtherControllers(t *testing.T) {
	by := func(kind, id string) object {
		return object{"ownerReferences": []any{object{"kind": kind, "name": "mine", "uid": id, "controller": true}}}
	}
	for _, c := range []struct {
		kind, group string
		metadata    object
		sets        bool
	}{
		{"StatefulSet", "prod/StatefulSet/mine", by("StatefulSet", "uid-stateful"), false},
		{"a bare ReplicaSet", "prod/ReplicaSet/mine", by("ReplicaSet", "uid-mine"), true},
	} {
		t.Run(c.kind, func(t *testing.T) {
			inCluster(t, func(a *api) {
				t := a.t
				a.put(resourceReplicaSets, object{"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": object{"name": "mine", "uid": "uid-mine"}, "spec": object{"selector": object{"matchLabels": object{"app": "kinesin"}}}})
				a.put(resourcePods, podObject(own, true, c.metadata))
				got, err := a.open()
				if err != nil {
					t.Fatal(err)
				}
				if got.Group() != c.group || got.byMaker == c.sets {
					t.Errorf("group %q, by the maker alone: %v", got.Group(), got.byMaker)
				}
				seen := inventory{pods: map[string]seenPod{}, sets: map[uid]seenSet{"uid-mine": {owner: "uid-mine"}}}
				if mine, other := (&seenPod{maker: got.maker.UID}), (&seenPod{maker: "uid-kinesin-new"}); !seen.owns(mine, got) || seen.owns(other, got) {
					t.Error("the pods of the fleet are not told from others")
				}
			})
		})
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	forbid := func(code int, reason, verb, resource string) func(a *api) {
		return func(a *api) {
			a.refuseBy(code, reason, func(v, r string) bool { return (v == verb || verb == "") && (r == resource || resource == "") })
		}
	}
	for name, c := range map[string]struct {
		spoil func(a *api)
		want  error
		words []string
	}{
		"no get on pods":         {forbid(http.StatusForbidden, "Forbidden", "get", resourcePods), ErrForbidden, []string{"get pods", `"prod"`, "Role", "get, list and watch", "POD_NAMESPACE"}},
		"no get on replicasets":  {forbid(http.StatusForbidden, "Forbidden", "get", resourceReplicaSets), ErrForbidden, []string{"get replicasets"}},
		"no list on pods":        {forbid(http.StatusForbidden, "Forbidden", "list", resourcePods), ErrForbidden, []string{"list pods"}},
		"no watch on pods":       {forbid(http.StatusForbidden, "Forbidden", "watch", resourcePods), ErrForbidden, []string{"watch pods"}},
		"no list on replicasets": {forbid(http.StatusForbidden, "Forbidden", "list", resourceReplicaSets), ErrForbidden, []string{"list replicasets"}},
		"no watch on sets":       {forbid(http.StatusForbidden, "Forbidden", "watch", resourceReplicaSets), ErrForbidden, []string{"watch replicasets"}},
		"a token that expired":   {forbid(http.StatusUnauthorized, "Unauthorized", "", ""), ErrUnauthorized, []string{"token"}},
		"no such pod":            {func(a *api) { a.removePod(own) }, ErrPodNotFound, []string{own, `"prod"`, "POD_NAMESPACE"}},
		"a pod of nobody":        {func(a *api) { a.put(resourcePods, podObject(own, true, object{"ownerReferences": nil})) }, ErrNoController, []string{own, "Deployment"}},
	} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, func(a *api) {
				t := a.t
				c.spoil(a)
				began := time.Now()
				_, err := a.open()
				if !errors.Is(err, c.want) || !Lasting(err) {
					t.Fatalf("%v: want %v, lasting", err, c.want)
				}
				for _, word := range c.words {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("%q does not name %q", err, word)
					}
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("told after %v", took)
				}
			})
		})
	}
}

func TestOpenTriesWhileTheServerIsAway(t *testing.T) {
	inCluster(t, func(a *api) {
		t := a.t
		a.goAway()
		began := time.Now()
		_, err := a.open()
		if took := time.Since(began); !errors.Is(err, ErrUnreachable) || Lasting(err) || took < startMax || took > startMax+callMax {
			t.Errorf("%v after %v", err, took)
		}
		if !strings.Contains(err.Error(), "kubernetes.test") || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%q does not say where and why", err)
		}
		time.AfterFunc(20*time.Second, a.goBack)
		if _, err := a.open(); err != nil {
			t.Errorf("back after 20 s: %v", err)
		}
	})
}

func TestOpenGivesUpOnAServerThatHangs(t *testing.T) {
	inCluster(t, func(a *api) {
		t := a.t
		a.hung.Store(true)
		began := time.Now()
		if _, err := a.open(); !errors.Is(err, ErrUnreachable) || time.Since(began) > startMax+callMax {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestOpenTriesAgainWhatMayPass(t *testing.T) {
	inCluster(t, func(a *api) {
		t := a.t
		a.refuseBy(http.StatusInternalServerError, "InternalError", func(string, string) bool { return true })
		time.AfterFunc(5*time.Second, a.refuseNone)
		if _, err := a.open(); err != nil {
			t.Error(err)
		}
	})
}

func TestIdentity(t *testing.T) {
	for _, c := range []struct {
		env   map[string]string
		words []string
	}{
		{map[string]string{"POD_NAME": "p", "POD_NAMESPACE": "n"}, nil},
		{map[string]string{"POD_NAME": "p"}, []string{"POD_NAMESPACE is not set", "downward API"}},
		{map[string]string{"POD_NAMESPACE": "n"}, []string{"POD_NAME is not set"}},
		{nil, []string{"neither is set"}},
		{map[string]string{"POD_NAME": "A B/../x", "POD_NAMESPACE": "n"}, []string{"POD_NAME", `"A B/../x"`}},
		{map[string]string{"POD_NAME": "p", "POD_NAMESPACE": "../x"}, []string{"POD_NAMESPACE", `"../x"`}},
	} {
		err := checkIdentity(c.env["POD_NAME"], c.env["POD_NAMESPACE"])
		if errors.Is(err, ErrNoIdentity) != (c.words != nil) {
			t.Errorf("%v: %v", c.env, err)
		}
		for _, word := range c.words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q does not say %q", err, word)
			}
		}
	}
	if _, err := Open(t.Context(), Config{}); !errors.Is(err, ErrNoIdentity) {
		t.Errorf("without an identity: %v", err)
	}
}

func TestOpenOutsideACluster(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("HOME", t.TempDir())
	open := func() error {
		_, err := Open(t.Context(), Config{Pod: own, Namespace: namespace, Clock: clock.Real(), Log: silent()})
		return err
	}
	t.Setenv("KUBECONFIG", "")
	if err := open(); !errors.Is(err, ErrNoCluster) || !Lasting(err) || !strings.Contains(err.Error(), "KUBECONFIG") {
		t.Errorf("without any: %v", err)
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	if err := open(); !errors.Is(err, ErrNoCluster) {
		t.Errorf("a file that is not there: %v", err)
	}
	broken := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(broken, []byte("clusters: {"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", broken)
	if err := open(); !errors.Is(err, ErrNoCluster) || !strings.Contains(err.Error(), broken) {
		t.Errorf("a broken file: %v", err)
	}
}
