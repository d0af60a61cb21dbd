// Command readme writes the tables of inputs and outputs into the README of each module of terraform/ that it
// is given, from the module's variables, outputs and resources:
//
//	go run . ../../modules/*
//
// They go between two marks, which the README has to have; the rest of it is written by hand and left alone.
// With -check nothing is written: a README that is not up to date is named, and the exit status is 1. A
// variable without a type, and a variable or output without a description, is an error.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The marks between which everything is generated.
const (
	markBegin = "<!-- inputs and outputs: make tf/docs -->"
	markEnd   = "<!-- inputs and outputs end -->"
)

var errStale = errors.New("is not up to date: run make tf/docs and commit what it changes")

func main() {
	check := flag.Bool("check", false, "write nothing, and fail when a README is not up to date")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "readme: want the folders of modules, such as ../../modules/core")
		os.Exit(2)
	}
	failed := false
	for _, dir := range flag.Args() {
		if err := update(dir, *check); err != nil {
			fmt.Fprintf(os.Stderr, "readme: %s: %v\n", filepath.Join(dir, "README.md"), err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// update writes the tables of a module, or finds out whether they are what they would be.
func update(dir string, check bool) error {
	m, err := read(dir)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "README.md")
	before, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	after, err := replace(string(before), m.tables())
	switch {
	case err != nil:
		return err
	case after == string(before):
		return nil
	case check:
		return errStale
	}
	return os.WriteFile(path, []byte(after), 0o600)
}

// replace puts tables between the marks of a README.
func replace(readme, tables string) (string, error) {
	head, rest, begun := strings.Cut(readme, markBegin+"\n")
	_, tail, ended := strings.Cut(rest, markEnd)
	if !begun || !ended {
		return "", fmt.Errorf("want a line %s, and %s below it", markBegin, markEnd)
	}
	return head + markBegin + "\n\n" + tables + "\n" + markEnd + tail, nil
}
