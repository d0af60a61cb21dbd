package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// npmCPUs are architectures in npm's words.
var npmCPUs = map[string]string{"amd64": "x64", "arm64": "arm64"}

// npmPackage is the package.json of a package.
type npmPackage struct {
	Name        string   `json:"name"`
	Version     string   `json:"version"`
	Description string   `json:"description"`
	License     string   `json:"license"`
	Files       []string `json:"files,omitempty"`
	OS          []string `json:"os,omitempty"`
	CPU         []string `json:"cpu,omitempty"`
}

// npm writes a package with the program for each platform but Windows, and the client, whose optional dependencies they are: npm installs
// the one of its platform.
func (r *release) npm() error {
	const dir = "clients/typescript"
	text, err := r.read(dir + "/package.json")
	if err != nil {
		return err
	}
	var client npmPackage
	if err := json.Unmarshal(text, &client); err != nil {
		return fmt.Errorf("%s/package.json: %w", dir, err)
	}
	var optional []string
	for _, p := range r.platforms {
		if p.os == "windows" {
			continue
		}
		name := fmt.Sprintf("%s-%s-%s", client.Name, p.os, npmCPUs[p.arch])
		if err := r.npmProgram(p, npmPackage{
			Name: name, Version: r.version, Description: "The program kinesin", License: client.License, OS: []string{p.os}, CPU: []string{npmCPUs[p.arch]},
		}); err != nil {
			return err
		}
		optional = append(optional, fmt.Sprintf("%q: %q", name, r.version))
	}
	// As text, because the order of exports counts.
	text = bytes.TrimSuffix(stamp(text, r.version), []byte("\n}\n"))
	text = fmt.Appendf(text, ",\n  \"optionalDependencies\": { %s }\n}\n", strings.Join(optional, ", "))
	readme, err := r.readme(dir)
	if err != nil {
		return err
	}
	licences, err := r.licences("")
	if err != nil {
		return err
	}
	files := []file{{name: "package.json", text: text}, {name: "README.md", text: readme}, licences[0]} // it carries nobody else's code
	for _, folder := range client.Files {
		found, err := r.tree(dir, folder, func(string) bool { return true })
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	return r.npmWrite(client.Name, files)
}

// npmProgram writes the package with the program for a platform.
func (r *release) npmProgram(p platform, about npmPackage) error {
	text, err := json.MarshalIndent(about, "", "  ")
	if err != nil {
		return err
	}
	sbom, err := os.ReadFile(filepath.Join(r.out, r.sbom("kinesin", p)))
	if err != nil {
		return err
	}
	files, err := r.licences("")
	if err != nil {
		return err
	}
	files = append(files, file{name: "package.json", text: text}, file{name: "kinesin.cdx.json", text: sbom}, file{name: "bin/kinesin", text: r.programs[p]["kinesin"]})
	return r.npmWrite(about.Name, files)
}

// npmWrite writes a package under the name that npm pack gives it. Files in bin are programs.
func (r *release) npmWrite(name string, files []file) error {
	for i, f := range files {
		files[i].name, files[i].mode = "package/"+f.name, 0o644
		if strings.HasPrefix(f.name, "bin/") {
			files[i].mode = 0o755
		}
	}
	var out bytes.Buffer
	if err := tarGz(&out, files, r.time); err != nil {
		return err
	}
	return r.write(name+"-"+r.version+".tgz", out.Bytes())
}
