// Package loopback runs other people's programs for tests, such as the AWS emulators and a Kubernetes
// control plane: it has them installed by a script below tools/, finds ports for them, and owns their
// processes and what they say. It knows none of them by name and waits for none to be ready: its callers
// do. Programs end with the one that started them, even by SIGKILL, and nothing of them is left behind. No
// production binary links it (arch_test.go holds it to that), and it runs on Linux only.
package loopback
