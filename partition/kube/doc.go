// Package kube is membership by the pods of a Kubernetes cluster: the members are the ready pods of the
// Deployment that this process's pod belongs to, of all its ReplicaSets, so that a rollout is one fleet. It
// is a partition.Membership; a member's name is the name of its pod.
//
// It lists and watches the pods and replica sets of its namespace, which tell who belongs to the fleet. The
// lease rows of package fleet tell who is alive: a process that joins, leaves or is silent by its row is no
// member, and the API server cannot remove more than half of the members without the rows (merge). While the
// API server is away the rows decide alone.
//
// It needs get, list and watch on pods and replicasets. It uses the REST client and the reflector of
// client-go and own types with few fields; informers and typed clients would add 20 MB to the binary. The
// reflector fills a store of this package, because a list has to be one change: an informer reports one
// deletion after the other.
//
// The package owns no rows and writes nothing to the API server. It decides nothing about partitions.
package kube
