package kube

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Errors of Open wrap one of these. All but ErrUnreachable last until somebody changes something; see
// Lasting.
var (
	ErrNoIdentity   = errors.New("the pod does not know itself: set POD_NAME and POD_NAMESPACE from the downward API (fieldRef metadata.name and metadata.namespace)")
	ErrNoCluster    = errors.New("no way to the Kubernetes API server: run in a pod with a mounted service account token (automountServiceAccountToken: true), or set KUBECONFIG")
	ErrPodNotFound  = errors.New("no such pod: POD_NAME and POD_NAMESPACE must be those of this pod")
	ErrNoController = errors.New("the pod has no controller: run it by a Deployment, a ReplicaSet or a StatefulSet, or choose another membership")
	ErrForbidden    = errors.New("forbidden by the Kubernetes API server")
	ErrUnauthorized = errors.New("the Kubernetes API server does not know this service account: its token is invalid or has expired")
	ErrUnreachable  = errors.New("cannot reach the Kubernetes API server")
)

// Lasting reports whether a retry is useless until somebody changes something.
func Lasting(err error) bool {
	for _, lasting := range []error{ErrNoIdentity, ErrNoCluster, ErrPodNotFound, ErrNoController, ErrForbidden, ErrUnauthorized} {
		if errors.Is(err, lasting) {
			return true
		}
	}
	return false
}

// request describes a request to the API server in errors.
type request struct {
	verb, resource, namespace, name string
}

// explain turns a lasting error of the API server into one of this package. It passes on those that may pass.
func (r request) explain(err error) error {
	what := fmt.Sprintf("%s %s in namespace %q", r.verb, r.resource, r.namespace)
	switch {
	case err == nil:
		return nil
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: %s. Give the pod's service account a Role in this namespace with the verbs get, list and watch on pods "+
			"(apiGroup \"\") and replicasets (apiGroup apps), and check that POD_NAMESPACE is the pod's own: %w", ErrForbidden, what, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w: %s: %w", ErrUnauthorized, what, err)
	case apierrors.IsNotFound(err) && r.resource == resourcePods:
		return fmt.Errorf("%w; there is no %q in namespace %q: %w", ErrPodNotFound, r.name, r.namespace, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
