// Command dockerfile reads the Dockerfile of a folder as BuildKit does and prints, as JSON, what its rules
// (all of them, also the experimental ones) find, what would run in its stages, how its image would be
// configured, and which files a build would be sent. It asks no registry: base images are taken to be there.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/client/llb/sourceresolver"
	"github.com/moby/buildkit/frontend/dockerfile/dockerfile2llb"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/linter"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerui"
	"github.com/moby/buildkit/solver/pb"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
	"github.com/opencontainers/go-digest"
	ocispecs "github.com/opencontainers/image-spec/specs-go/v1"
)

// reading is what is printed.
type reading struct {
	Findings []string             `json:"findings"` // of the rules, and what does not parse
	Run      []string             `json:"run"`      // shell commands of all stages, in order
	Config   ocispecs.ImageConfig `json:"config"`   // of the image
	Context  []string             `json:"context"`  // files that a build is sent, sorted
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "dockerfile: want one argument, the folder with the Dockerfile")
		os.Exit(2)
	}
	r, err := read(context.Background(), os.Args[1])
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dockerfile:", err)
		os.Exit(1)
	}
}

func read(ctx context.Context, dir string) (*reading, error) {
	text, err := os.ReadFile(filepath.Join(dir, "Dockerfile"))
	if err != nil {
		return nil, err
	}
	r := &reading{Findings: []string{}}
	if err := r.check(ctx, text); err != nil {
		return nil, err
	}
	if err := r.parse(text); err != nil {
		return nil, err
	}
	return r, r.walk(dir)
}

// options are those of `docker build --check` for linux/amd64.
func options(text []byte) dockerfile2llb.ConvertOpt {
	platform := ocispecs.Platform{OS: "linux", Architecture: "amd64"}
	source := llb.NewSourceMap(nil, "Dockerfile", "Dockerfile", text)
	source.Definition = &llb.Definition{}
	return dockerfile2llb.ConvertOpt{
		Config: dockerui.Config{
			LinterConfig:    &linter.Config{ExperimentalAll: true},
			BuildPlatforms:  []ocispecs.Platform{platform},
			TargetPlatforms: []ocispecs.Platform{platform},
		},
		SourceMap:      source,
		TargetPlatform: &platform,
		MetaResolver:   anyImage{},
	}
}

func (r *reading) check(ctx context.Context, text []byte) error {
	found, err := dockerfile2llb.DockerfileLint(ctx, text, options(text))
	if err != nil {
		return err
	}
	for _, w := range found.Warnings {
		line := int32(0)
		if w.Location != nil && len(w.Location.Ranges) > 0 {
			line = w.Location.Ranges[0].Start.Line
		}
		r.Findings = append(r.Findings, fmt.Sprintf("line %d: %s: %s", line, w.RuleName, w.Detail))
	}
	if found.Error != nil {
		r.Findings = append(r.Findings, found.Error.Message)
		return nil
	}
	built, err := dockerfile2llb.Dockerfile2LLB(ctx, text, options(text))
	if err != nil {
		return err
	}
	r.Config = built.Image.Config.ImageConfig
	return nil
}

func (r *reading) parse(text []byte) error {
	tree, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return err
	}
	stages, _, err := instructions.Parse(tree.AST, nil)
	if err != nil {
		return err
	}
	for _, s := range stages {
		for _, c := range s.Commands {
			run, is := c.(*instructions.RunCommand)
			if !is {
				continue
			}
			if !run.PrependShell || len(run.CmdLine) != 1 {
				return errors.New("a RUN that is no shell command")
			}
			r.Run = append(r.Run, run.CmdLine[0])
		}
	}
	return nil
}

// walk lists what .dockerignore lets through.
func (r *reading) walk(dir string) error {
	file, err := os.Open(filepath.Join(dir, ".dockerignore"))
	if err != nil {
		return err
	}
	patterns, err := ignorefile.ReadAll(file)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	matcher, err := patternmatcher.New(patterns)
	if err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		ignored, err := matcher.MatchesOrParentMatches(name)
		if err == nil && !ignored {
			r.Context = append(r.Context, filepath.ToSlash(name))
		}
		return err
	})
}

// anyImage knows every base image, and nothing about it.
type anyImage struct{}

func (anyImage) ResolveImageConfig(_ context.Context, ref string, _ sourceresolver.Opt) (string, digest.Digest, []byte, error) {
	config, err := json.Marshal(ocispecs.Image{Platform: ocispecs.Platform{OS: "linux", Architecture: "amd64"}})
	return ref, digest.FromBytes(config), config, err
}

func (a anyImage) ResolveSourceMetadata(context.Context, *pb.SourceOp, sourceresolver.Opt) (*sourceresolver.MetaResponse, error) {
	return nil, errors.New("no source is asked for its contents")
}
