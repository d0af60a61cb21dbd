// Package kubelocal runs a Kubernetes control plane for tests: etcd, an API server with RBAC, and the
// controllers of Deployments, StatefulSets, HorizontalPodAutoscalers, ServiceAccounts and garbage. It owns
// their processes, ports, keys and data, and has tools/kube/install build them, which takes minutes the
// first time on a machine. It judges nothing, runs no pod (package test/kubelet does), no production binary
// links it (arch_test.go holds it to that), and it runs on Linux only.
//
// A test begins with
//
//	plane := kubelocal.Start(t)
//	namespace := plane.Namespace(t)
//
// and gets the control plane that its whole test program shares: one takes 400 MB and seconds of CPU to
// start. Tests keep apart by their namespaces. A test program ends it with [End]; it dies with the
// program in any case.
//
// Everything listens on loopback, at ports that stay the same over restarts. [Plane.Config] and
// [Plane.Kubeconfig] are the administrator's; what pods do is to be done with the token of a ServiceAccount:
// see [Plane.Token].
package kubelocal
