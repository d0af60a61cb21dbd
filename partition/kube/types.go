package kube

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

const (
	resourcePods        = "pods"
	resourceReplicaSets = "replicasets"

	// hashLabel is what a Deployment adds to the labels and selectors of each of its ReplicaSets.
	hashLabel = "pod-template-hash"
)

// The types below have only the fields that membership needs. The API's own types would add 15 MB to the
// binary.

// pod is a v1 Pod.
type pod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Status podStatus `json:"status"`
}

type podStatus struct {
	Conditions []condition `json:"conditions"`
}

type condition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

// isReady reports whether the pod is ready and not being deleted.
func (p *pod) isReady() bool {
	if p.isEnding() {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == "Ready" {
			return c.Status == "True"
		}
	}
	return false
}

// isEnding reports whether the pod is being deleted.
func (p *pod) isEnding() bool { return p.DeletionTimestamp != nil }

// replicaSet is an apps/v1 ReplicaSet.
type replicaSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec replicaSetSpec `json:"spec"`
}

type replicaSetSpec struct {
	Replicas int                   `json:"replicas"`
	Selector *metav1.LabelSelector `json:"selector"`
}

// fleetSelector returns a selector of the pods of this set and of all other sets of its controller.
func (s *replicaSet) fleetSelector() (string, error) {
	selector := s.Spec.Selector.DeepCopy()
	if selector != nil {
		delete(selector.MatchLabels, hashLabel)
		kept := selector.MatchExpressions[:0]
		for _, e := range selector.MatchExpressions {
			if e.Key != hashLabel {
				kept = append(kept, e)
			}
		}
		selector.MatchExpressions = kept
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return "", err
	}
	return parsed.String(), nil
}

// controllerOf returns the controller of an object; its uid is empty if there is none.
func controllerOf(o *metav1.ObjectMeta) metav1.OwnerReference {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return *ref
	}
	return metav1.OwnerReference{}
}

// list is a list of objects of one kind.
type list[T interface{ copied() T }] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []T `json:"items"`
}

func (p pod) copied() pod {
	c := p
	p.DeepCopyInto(&c.ObjectMeta)
	c.Status.Conditions = slices.Clone(p.Status.Conditions)
	return c
}

func (s replicaSet) copied() replicaSet {
	c := s
	s.DeepCopyInto(&c.ObjectMeta)
	c.Spec.Selector = s.Spec.Selector.DeepCopy()
	return c
}

// DeepCopyObject implements runtime.Object.
func (p *pod) DeepCopyObject() runtime.Object {
	c := p.copied()
	return &c
}

// DeepCopyObject implements runtime.Object.
func (s *replicaSet) DeepCopyObject() runtime.Object {
	c := s.copied()
	return &c
}

// DeepCopyObject implements runtime.Object.
func (l *list[T]) DeepCopyObject() runtime.Object {
	c := list[T]{TypeMeta: l.TypeMeta}
	l.DeepCopyInto(&c.ListMeta)
	for _, o := range l.Items {
		c.Items = append(c.Items, o.copied())
	}
	return &c
}

var (
	coreV1 = schema.GroupVersion{Version: "v1"}
	appsV1 = schema.GroupVersion{Group: "apps", Version: "v1"}
)

// newCodecs returns codecs for the types above under their names in the API.
func newCodecs() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(coreV1.WithKind("Pod"), &pod{})
	scheme.AddKnownTypeWithName(coreV1.WithKind("PodList"), &list[pod]{})
	scheme.AddKnownTypeWithName(appsV1.WithKind("ReplicaSet"), &replicaSet{})
	scheme.AddKnownTypeWithName(appsV1.WithKind("ReplicaSetList"), &list[replicaSet]{})
	metav1.AddToGroupVersion(scheme, coreV1)
	metav1.AddToGroupVersion(scheme, appsV1)
	return serializer.NewCodecFactory(scheme)
}

// clientsOf returns a client for each of the two API groups, over one connection.
func clientsOf(config *rest.Config) (core, apps *rest.RESTClient, err error) {
	c := rest.CopyConfig(config)
	c.UserAgent = "kinesin"
	c.AcceptContentTypes, c.ContentType = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	c.NegotiatedSerializer = newCodecs().WithoutConversion()
	connection, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, nil, err
	}
	c.APIPath, c.GroupVersion = "/api", &coreV1
	if core, err = rest.RESTClientForConfigAndClient(c, connection); err != nil {
		return nil, nil, err
	}
	c.APIPath, c.GroupVersion = "/apis", &appsV1
	apps, err = rest.RESTClientForConfigAndClient(c, connection)
	return core, apps, err
}

type uid = types.UID
