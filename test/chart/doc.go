// Package chart renders deploy/chart/kinesin for tests, with Helm as tools/helm/install builds it, and
// holds what comes out to what Kubernetes takes and to the project's policy: restricted pods, no
// permission beyond those of membership, probes, no secret in plain text. It also runs the image that the
// Dockerfile would make, as far as that goes where no image can be built. It asks no cluster anything.
package chart
