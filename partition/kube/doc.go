// Package kube is membership by the pods of a Kubernetes cluster: the members are the ready pods of the
// Deployment that this process's own pod belongs to, whichever ReplicaSet made them, so that a rollout is one
// fleet. It is a partition.Membership; a member's name is its pod's.
//
// It lists and watches the pods and replica sets of its own namespace, and takes the lease rows of package
// fleet as its second source: the API server does not take away more than half of the members without them
// (merge), and while it is away the rows decide. What a process says of itself in its row, joining or
// leaving, counts at once. Pods that start together are members before they are ready: as founders, which is
// what their rows say of them.
//
// It needs get, list and watch on pods and replicasets, and nothing else: no informer factory, no typed
// clients of client-go, which would add 20 MB to the binary, but its REST client, its reflector and types
// with the few fields that matter. The reflector feeds a store of this package because one list must be one
// change here: the handlers of an informer hear of one deletion after the other.
//
// The package owns no rows and writes nothing to the API server. It decides nothing about partitions.
package kube
