package isolation

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/weighmaster/weighmaster/schemas"
)

const sandboxExec = "/usr/bin/sandbox-exec"

// macSystem are folders of macOS that programs read and run from.
var macSystem = []string{"/bin", "/sbin", "/usr/bin", "/usr/lib", "/usr/libexec", "/usr/sbin", "/usr/share", "/System/Library", "/System/Cryptexes", "/Library/Apple", "/private/var/db/dyld",
	"/Library/Developer/CommandLineTools"}

// macServices are what a process of macOS asks for to start at all; none of
// them is the keychain (com.apple.SecurityServer, com.apple.securityd) or a name resolver.
var macServices = []string{"com.apple.system.logger", "com.apple.system.notification_center", "com.apple.system.opendirectoryd.libinfo"}

// macGraphics are the services through which Metal is reached.
var macGraphics = []string{"com.apple.MTLCompilerService", "com.apple.CARenderServer", "com.apple.PowerManagement.control", "com.apple.gpumemd.source"}

// sandboxProfile is the box in the language of sandbox-exec(1): everything is
// denied but what is named. Paths are quoted as the language's strings.
func (b *Box) sandboxProfile() string {
	var w strings.Builder
	rule := func(action string, filters ...string) {
		fmt.Fprintf(&w, "(%s", action)
		for _, f := range filters {
			w.WriteString("\n  " + f)
		}
		w.WriteString(")\n")
	}
	below := func(paths ...string) []string {
		list := make([]string, 0, len(paths))
		for _, p := range paths {
			list = append(list, "(subpath "+quoted(p)+")")
		}
		return list
	}
	var read, write []string
	for _, m := range b.mounts {
		if m.Write {
			write = append(write, m.real)
		} else {
			read = append(read, m.real)
		}
	}
	write = append(write, b.private)
	run := append(append([]string{}, macSystem...), read...)
	if b.profile.RunsProducts {
		run = append(run, write...)
	}
	w.WriteString("(version 1)\n")
	rule("deny default")
	rule("allow process-fork")
	rule("allow signal", "(target same-sandbox)")
	rule("allow sysctl-read")
	rule("allow file-read-metadata", below("/")...)
	rule("allow file-read*", append(below(append(append([]string{}, macSystem...), append(read, write...)...)...),
		`(literal "/")`, `(literal "/dev/null")`, `(literal "/dev/zero")`, `(literal "/dev/random")`, `(literal "/dev/urandom")`, `(literal "/private/etc/localtime")`)...)
	rule("allow file-write*", append(below(write...), `(literal "/dev/null")`)...)
	rule("allow process-exec", below(run...)...)
	rule("allow file-map-executable", below(run...)...)
	services := macServices
	if b.Admits(schemas.AdmitGPU) {
		services = append(append([]string{}, services...), macGraphics...)
		rule("allow iokit-open", `(iokit-user-client-class "AGXDeviceUserClient")`, `(iokit-user-client-class "AGXSharedUserClient")`, `(iokit-user-client-class "IOSurfaceRootUserClient")`)
	}
	var names []string
	for _, s := range services {
		names = append(names, "(global-name "+quoted(s)+")")
	}
	rule("allow mach-lookup", names...)
	if b.Admits(schemas.AdmitNetwork) {
		rule("allow network*")
		rule("allow mach-lookup", `(global-name "com.apple.dnssd.service")`)
	} else {
		rule("deny network*")
	}
	return w.String()
}

// quoted is a string of the profile's language, in which a path is bytes: only
// what ends a string or escapes in it is escaped. Go's escapes, such as \u200b, mean other characters there.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// sandboxCommand runs a program under the profile.
func (b *Box) sandboxCommand(ctx context.Context, argv []string) (*exec.Cmd, error) {
	args := append([]string{"-p", b.sandboxProfile()}, argv...)
	cmd := exec.CommandContext(ctx, sandboxExec, args...)
	cmd.Env, cmd.Dir = b.env, b.profile.Dir
	return cmd, nil
}
