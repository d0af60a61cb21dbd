// Package kube runs schedulers as pods of a real control plane, from the chart, with their ServiceAccount's
// token: each pod is a process (package kubelet), on DynamoDB Local and ElasticMQ. It scales them, updates
// them, kills them and takes the API server away under load. Each run is judged by the checker, by how late
// tasks were fired, and by how the partitions are shared out. Its rig is a Site of package harness and a
// cluster, since nothing else runs pods.
package kube
