package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

// packages writes a .deb and an .rpm for each platform of Linux.
func (r *release) packages() (err error) {
	work, err := os.MkdirTemp("", "kinesin-package-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	for name, text := range r.completions {
		if err := os.WriteFile(filepath.Join(work, name), text, 0o644); err != nil {
			return err
		}
	}
	for _, p := range r.platforms {
		if p.os != "linux" {
			continue
		}
		if err := os.WriteFile(filepath.Join(work, "kinesin"), r.programs[p]["kinesin"], 0o755); err != nil {
			return err
		}
		for _, packager := range []nfpm.Packager{deb.Default, rpm.DefaultRPM} {
			info := r.packed(p, work)
			var out bytes.Buffer
			if err := packager.Package(info, &out); err != nil {
				return err
			}
			if err := r.write(packager.ConventionalFileName(info), out.Bytes()); err != nil {
				return err
			}
		}
	}
	return nil
}

// packed describes the package of a platform, whose generated files are in the folder work.
func (r *release) packed(p platform, work string) *nfpm.Info {
	linux := filepath.Join(r.root, "deploy", "linux")
	add := func(dir, name, to string, mode os.FileMode, kind, packager string) *files.Content {
		return &files.Content{
			Source: filepath.Join(dir, name), Destination: to, Type: kind, Packager: packager,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.time},
		}
	}
	return nfpm.WithDefaults(&nfpm.Info{
		Name: "kinesin", Arch: p.arch, Platform: "linux", Version: r.version, Release: "1", Section: "admin", Priority: "optional",
		Maintainer: "The Kinesin maintainers <https://github.com/kinesin-io/kinesin>", Vendor: "Kinesin", Homepage: "https://github.com/kinesin-io/kinesin",
		License: "Apache-2.0", MTime: r.time, DisableGlobbing: true,
		Description: "Durable scheduler of delayed tasks\nRuns your code later: durably, within milliseconds of its due time, never early.",
		Overridables: nfpm.Overridables{
			Depends: []string{"systemd"},
			Umask:   0o022,
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(linux, "postinstall.sh"), PreRemove: filepath.Join(linux, "preremove.sh"), PostRemove: filepath.Join(linux, "postremove.sh"),
			},
			RPM: nfpm.RPM{BuildHost: "localhost", Summary: "Durable scheduler of delayed tasks"},
			Contents: files.Contents{
				add(work, "kinesin", "/usr/bin/kinesin", 0o755, "", ""),
				add(linux, "kinesin.yaml", "/etc/kinesin/kinesin.yaml", 0o644, files.TypeConfigNoReplace, ""),
				add(linux, "kinesin.service", "/usr/lib/systemd/system/kinesin.service", 0o644, "", ""),
				add(linux, "kinesin.sysusers", "/usr/lib/sysusers.d/kinesin.conf", 0o644, "", ""),
				add(r.root, "LICENSE", "/usr/share/doc/kinesin/copyright", 0o644, "", ""),
				add(r.root, "THIRD_PARTY_LICENSES", "/usr/share/doc/kinesin/THIRD_PARTY_LICENSES", 0o644, "", ""),
				add(work, "kinesin.bash", "/usr/share/bash-completion/completions/kinesin", 0o644, "", ""),
				add(work, "kinesin.fish", "/usr/share/fish/vendor_completions.d/kinesin.fish", 0o644, "", ""),
				add(work, "_kinesin", "/usr/share/zsh/vendor-completions/_kinesin", 0o644, "", "deb"),
				add(work, "_kinesin", "/usr/share/zsh/site-functions/_kinesin", 0o644, "", "rpm"),
			},
		},
	})
}
