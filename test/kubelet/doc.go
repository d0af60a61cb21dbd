// Package kubelet stands in for the nodes of a cluster: it runs the pods of a namespace as processes of this
// machine. It binds pods, gives each process what a container would be given (arguments, environment, secrets
// and the like, a ServiceAccount's token), probes it, restarts it when it ends or is not alive, says in the
// pod's status how it is, and ends it when its pod is deleted: SIGTERM, SIGKILL after the grace. It owns
// those processes and their files, and keeps a record of what it did to them. It is for tests only.
//
// Some things are not as on a node: there are no images (every container runs one program), no network and no
// file system of its own. Each pod has a loopback address; an argument or variable that names a port on all
// interfaces, such as ":7070", names that address instead, and one that names a file below a volume's mount
// path names the pod's copy of it. In place of what a cluster puts into every container, KUBECONFIG is set.
package kubelet
