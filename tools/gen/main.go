// Command gen generates api/kinesinv1 from api/proto, with the plugins that go.mod pins. The output depends on
// nothing else, so that a fresh checkout on any machine generates the same bytes. It runs in its own folder.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/protoutil"
	"github.com/bufbuild/protocompile/reporter"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	source = "../../api/proto"
	output = "../../api/kinesinv1"
	module = "module=github.com/kinesin-io/kinesin/api/kinesinv1"
)

// plugins are the programs that write code, and the files that they write it for; none: all.
var plugins = []struct {
	name, options string
	files         []string
}{
	{name: "protoc-gen-go", options: module},
	{name: "protoc-gen-connect-go", options: module + ",simple"},
	{
		name: "protoc-gen-go-vtproto", options: module + ",features=marshal+unmarshal+size",
		files: []string{"kinesin/v1/task.proto", "kinesin/v1/worker.proto"},
	},
}

func main() {
	if err := generate(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func generate(ctx context.Context) error {
	files, warnings, err := compile(ctx)
	if err != nil {
		return err
	}
	if found := append(lint(files), warnings...); len(found) > 0 {
		return errors.New(strings.Join(found, "\n"))
	}
	written := map[string]string{} // contents by name
	for _, p := range plugins {
		request := &pluginpb.CodeGeneratorRequest{FileToGenerate: p.files, Parameter: &p.options}
		sent := map[string]bool{}
		for _, f := range files {
			if p.files == nil {
				request.FileToGenerate = append(request.FileToGenerate, f.Path())
			}
			send(request, f, sent)
		}
		response, err := run(ctx, p.name, request)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		for _, f := range response.GetFile() {
			written[f.GetName()] = f.GetContent()
		}
	}
	return write(written)
}

// compile reads all files, in the order of their names. Warnings are of what is imported and not used.
func compile(ctx context.Context) (files linker.Files, warnings []string, err error) {
	var names []string
	err = fs.WalkDir(os.DirFS(source), ".", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".proto") {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{source}}),
		Reporter:       reporter.NewReporter(nil, func(err reporter.ErrorWithPos) { warnings = append(warnings, err.Error()) }),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err = compiler.Compile(ctx, names...)
	return files, warnings, err
}

// send adds a file to a request, behind what it imports.
func send(request *pluginpb.CodeGeneratorRequest, f linker.File, sent map[string]bool) {
	if sent[f.Path()] {
		return
	}
	sent[f.Path()] = true
	for i := range f.Imports().Len() {
		send(request, f.FindImportByPath(f.Imports().Get(i).Path()), sent)
	}
	request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(f))
}

func run(ctx context.Context, plugin string, request *pluginpb.CodeGeneratorRequest) (*pluginpb.CodeGeneratorResponse, error) {
	data, err := proto.Marshal(request)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, "go", "tool", plugin)
	command.Stdin, command.Stderr = bytes.NewReader(data), os.Stderr
	answer, err := command.Output()
	if err != nil {
		return nil, err
	}
	response := &pluginpb.CodeGeneratorResponse{}
	if err := proto.Unmarshal(answer, response); err != nil {
		return nil, err
	}
	if response.Error != nil {
		return nil, errors.New(response.GetError())
	}
	return response, nil
}

// write replaces the folder of the generated code.
func write(files map[string]string) error {
	if err := os.RemoveAll(output); err != nil {
		return err
	}
	for name, content := range files {
		path := filepath.Join(output, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

var (
	pascal = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	snake  = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
)

// lint returns what is wrong with the names and the comments, with its place.
func lint(files linker.Files) (found []string) {
	for _, f := range files {
		check := func(d protoreflect.Descriptor, ok bool, want string) {
			if !ok {
				at := f.SourceLocations().ByDescriptor(d)
				found = append(found, fmt.Sprintf("%s/%s:%d:%d: %s: want %s", source, f.Path(), at.StartLine+1, at.StartColumn+1, d.FullName(), want))
			}
		}
		named := func(d protoreflect.Descriptor, want *regexp.Regexp) {
			check(d, want.MatchString(string(d.Name())), "a name like "+want.String())
		}
		commented := func(d protoreflect.Descriptor) {
			check(d, strings.HasPrefix(f.SourceLocations().ByDescriptor(d).LeadingComments, " "+string(d.Name())+" "), "a comment that begins with its name")
		}
		for i := range f.Services().Len() {
			service := f.Services().Get(i)
			named(service, regexp.MustCompile(`^[A-Z][A-Za-z0-9]*Service$`))
			commented(service)
			for i := range service.Methods().Len() {
				named(service.Methods().Get(i), pascal)
				commented(service.Methods().Get(i))
			}
		}
		for i := range f.Enums().Len() {
			enum := f.Enums().Get(i)
			named(enum, pascal)
			prefix := strings.ToUpper(regexp.MustCompile(`([a-z0-9])([A-Z])`).ReplaceAllString(string(enum.Name()), "${1}_${2}")) + "_"
			for i := range enum.Values().Len() {
				value := enum.Values().Get(i)
				named(value, regexp.MustCompile(`^`+prefix+`[A-Z0-9_]+$`))
				check(value, (value.Number() == 0) == (string(value.Name()) == prefix+"UNSPECIFIED"), prefix+"UNSPECIFIED for 0, and only for it")
			}
		}
		lintMessages(f.Messages(), named)
	}
	slices.Sort(found)
	return found
}

func lintMessages(messages protoreflect.MessageDescriptors, named func(protoreflect.Descriptor, *regexp.Regexp)) {
	for i := range messages.Len() {
		m := messages.Get(i)
		if m.IsMapEntry() {
			continue
		}
		named(m, pascal)
		for i := range m.Fields().Len() {
			named(m.Fields().Get(i), snake)
		}
		lintMessages(m.Messages(), named)
	}
}
