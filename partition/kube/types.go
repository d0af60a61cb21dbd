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

// The types below have the few fields that membership is about. The API's own types would do, and add 15 MB
// to the binary.

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

// isReady says that the pod is ready and is not being deleted.
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

// isEnding says that the pod is being deleted.
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

// fleetSelector selects the pods of the set and of those that its controller made before and after it.
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

// controllerOf is the object that made this one; its uid is empty when none did.
func controllerOf(o *metav1.ObjectMeta) metav1.OwnerReference {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return *ref
	}
	return metav1.OwnerReference{}
}

type podList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []pod `json:"items"`
}

type replicaSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []replicaSet `json:"items"`
}

func (p *pod) copied() pod {
	c := *p
	p.DeepCopyInto(&c.ObjectMeta)
	c.Status.Conditions = slices.Clone(p.Status.Conditions)
	return c
}

func (s *replicaSet) copied() replicaSet {
	c := *s
	s.DeepCopyInto(&c.ObjectMeta)
	c.Spec.Selector = s.Spec.Selector.DeepCopy()
	return c
}

// DeepCopyObject implements runtime.Object, as below.
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
func (l *podList) DeepCopyObject() runtime.Object {
	c := podList{TypeMeta: l.TypeMeta}
	l.DeepCopyInto(&c.ListMeta)
	for i := range l.Items {
		c.Items = append(c.Items, l.Items[i].copied())
	}
	return &c
}

// DeepCopyObject implements runtime.Object.
func (l *replicaSetList) DeepCopyObject() runtime.Object {
	c := replicaSetList{TypeMeta: l.TypeMeta}
	l.DeepCopyInto(&c.ListMeta)
	for i := range l.Items {
		c.Items = append(c.Items, l.Items[i].copied())
	}
	return &c
}

var (
	coreV1 = schema.GroupVersion{Version: "v1"}
	appsV1 = schema.GroupVersion{Group: "apps", Version: "v1"}
)

// newCodecs knows the types above by their names in the API.
func newCodecs() serializer.CodecFactory {
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(coreV1.WithKind("Pod"), &pod{})
	scheme.AddKnownTypeWithName(coreV1.WithKind("PodList"), &podList{})
	scheme.AddKnownTypeWithName(appsV1.WithKind("ReplicaSet"), &replicaSet{})
	scheme.AddKnownTypeWithName(appsV1.WithKind("ReplicaSetList"), &replicaSetList{})
	metav1.AddToGroupVersion(scheme, coreV1)
	metav1.AddToGroupVersion(scheme, appsV1)
	return serializer.NewCodecFactory(scheme)
}

// clientsOf makes one client for each of the two groups of the API, over one connection.
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

// uid is shorter to write.
type uid = types.UID
