// Package httptarget calls a URL for each attempt of a task: Runner is the handler of a worker. It owns the
// connections, their guard against forged requests, the signature, what an answer means, and how many calls a
// host gets at a time. It knows nothing of servers.
package httptarget
