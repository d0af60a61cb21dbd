// Command supply says what is linked into kinesin and kinesin-bench: as an SBOM of a binary, and as the list of licences. It
// asks the go command and the module cache, and no network.
//
//	supply -root DIR -version V -sbom OUT BINARY  write the SBOM of a binary (CycloneDX, JSON), and check it
//	supply -check-sbom SBOM BINARY                check one that is there
//	supply -root DIR -licenses OUT [-check]       write the licences, or fail when the file has others
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "supply:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("supply", flag.ContinueOnError)
	root := flags.String("root", ".", "folder of the module kinesin")
	version := flags.String("version", "", "version that is stamped on the binary")
	sbom := flags.String("sbom", "", "write the SBOM of the binary to this file")
	checkSBOM := flags.String("check-sbom", "", "check that this SBOM is that of the binary")
	list := flags.String("licenses", "", "write the licences to this file")
	check := flags.Bool("check", false, "write nothing, and fail when the file of licences differs")
	if err := flags.Parse(args); err != nil {
		return err
	}
	binary := flags.Arg(0)
	switch {
	case *list != "" && *sbom == "" && *checkSBOM == "" && flags.NArg() == 0:
		return licences(*root, *list, *check, out)
	case *sbom != "" && *checkSBOM == "" && *list == "" && !*check && flags.NArg() == 1:
		if err := writeSBOM(*root, binary, *version, *sbom); err != nil {
			return err
		}
		return checked(*sbom, binary, out)
	case *checkSBOM != "" && *sbom == "" && *list == "" && !*check && flags.NArg() == 1:
		return checked(*checkSBOM, binary, out)
	}
	return errors.New("want one of -sbom FILE BINARY, -check-sbom FILE BINARY and -licenses FILE")
}
