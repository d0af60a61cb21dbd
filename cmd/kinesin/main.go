// Command kinesin is the server, the client and a worker of Kinesin in one binary.
package main

import (
	"context"
	"os"

	"github.com/kinesin-io/kinesin/cmd/kinesin/cli"
)

// version is set at link time; without it the build information says what was built.
var version string

func main() {
	os.Exit(cli.Run(context.Background(), cli.Process{
		Args: os.Args[1:], Env: os.Environ(), Version: version,
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	}))
}
