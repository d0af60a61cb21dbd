// Package faults does to worker processes and servers what happens to them in life, one scenario a test,
// and prints how long it took to get over it. With KINESIN_LONG set, leases and waits are those of the
// published bars; without, they are as short as they can be. Scenarios run with worker processes, with a URL and
// with a function of AWS Lambda, but for those about worker processes themselves: beside the server, asked to end,
// with commands, with a clock of their own.
package faults
