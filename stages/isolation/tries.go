package isolation

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/weighmaster/weighmaster/schemas"
)

// metadataAddresses answer on rented machines with the machine's own credentials:
// Amazon, Azure and Google by the first, Amazon by IPv6, Azure's host, Alibaba.
var metadataAddresses = []string{"169.254.169.254:80", "[fd00:ec2::254]:80", "168.63.129.16:80", "100.100.100.200:80"}

// agentSockets are where agents and services listen that act for a user.
var agentSockets = []string{"/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/dbus/system_bus_socket", "/tmp/.X11-unix/X0"}

// agentVariables lead to agents.
var agentVariables = []string{"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "XDG_RUNTIME_DIR", "DISPLAY"}

// credentialFiles lie in homes.
var credentialFiles = []string{".netrc", ".git-credentials", ".pypirc", ".npmrc", ".aws/credentials", ".azure/accessTokens.json", ".azure/msal_token_cache.json", ".config/gcloud/credentials.db",
	".docker/config.json", ".kube/config", ".huggingface/token", ".cache/huggingface/token", ".ssh/id_rsa", ".ssh/id_ed25519", ".ssh/id_ecdsa"}

// modelFolders are where programs keep models, below a home unless absolute.
var modelFolders = []string{".cache/huggingface", ".ollama", ".lmstudio", ".cache/lm-studio", ".cache/llama.cpp", "/usr/share/ollama/.ollama"}

const maxTriedMounts = 50

// machineSetting is a file by which root names a program that the kernel starts
// outside of any box. It is opened only, and nothing written.
const machineSetting = "/proc/sys/kernel/core_pattern"

// tries is the list of what a probe attempts. inside gives the place of a path in the box.
func (p *plants) tries(b *Box) []Try {
	var list []Try
	add := func(attribute, kind, target, what string, control bool) {
		list = append(list, Try{Attribute: attribute, Kind: kind, Target: target, What: what, Control: control})
	}
	state := func(attribute, kind, target, what, want string) {
		list = append(list, Try{Attribute: attribute, Kind: kind, Target: target, What: what, Want: want})
	}
	// there adds a try of something of the machine's own, when it is there to be hidden.
	there := func(attribute, kind, target, what string) {
		if _, err := os.Lstat(target); err == nil {
			add(attribute, kind, target, what, succeeds(kind, target))
		}
	}
	for _, a := range []string{schemas.NetworkIsDenied, schemas.MetadataAddressIsDenied} {
		add(a, "loopback", p.beacon.Address(), "connect to a listener of the machine", true)
	}
	add(schemas.NetworkIsDenied, "tcp", Outside, "connect to an address on no network", false)
	add(schemas.NetworkIsDenied, "tcp", "[2001:db8::1]:9", "connect to an IPv6 address on no network", false)
	add(schemas.NetworkIsDenied, "udp", Outside, "send a datagram", false)
	if runtime.GOOS == "linux" {
		add(schemas.NetworkIsDenied, "vsock", "", "make a socket to the hypervisor", false)
	}
	for _, m := range metadataAddresses {
		add(schemas.MetadataAddressIsDenied, "tcp", m, "connect to "+m, false)
	}
	add(schemas.CanaryUnreadable, "read", p.canary, "read a file outside the allowed folders", true)
	add(schemas.ForeignBinaryDenied, "execute", p.foreign, "execute a program outside", true)
	for _, dir := range b.writableDirs() {
		list = append(list, Try{Attribute: schemas.ForeignBinaryDenied, Kind: "copy", Target: p.scratch, inside: dir.path, What: "write a program to " + dir.name + " and execute it", Control: true})
	}
	homes := homeFolders()
	for _, h := range homes {
		there(schemas.HomesHidden, "stat", h, "see a home folder")
		there(schemas.HomesHidden, "list", h, "list a home folder")
		for _, f := range credentialFiles {
			there(schemas.CredentialsAbsent, "read", filepath.Join(h, f), "read a file of credentials in a home")
		}
	}
	add(schemas.OtherModelsHidden, "stat", p.model, "see another model", true)
	add(schemas.OtherModelsHidden, "read", p.model, "read another model", true)
	if b.profile.Dir != "" {
		there(schemas.OtherModelsHidden, "list", filepath.Dir(filepath.Clean(b.profile.Dir)), "list the folder of the other stages")
	}
	for _, f := range modelFolders {
		if filepath.IsAbs(f) {
			there(schemas.OtherModelsHidden, "list", f, "list a folder of models of the machine")
			continue
		}
		for _, h := range homes {
			there(schemas.OtherModelsHidden, "stat", filepath.Join(h, f), "see a folder of models in a home")
		}
	}
	add(schemas.CredentialsAbsent, "variable", p.variable, "find a credential in the environment", true)
	state(schemas.CredentialsAbsent, "credential names", "", "variables that are named like credentials", "none")
	add(schemas.CredentialsAbsent, "read", p.secret, "read a file of credentials", true)
	there(schemas.CredentialsAbsent, "read", "/etc/shadow", "read /etc/shadow")
	there(schemas.CredentialsAbsent, "list", "/etc/ssh", "list /etc/ssh")
	if project := projectOf(b.profile.Dir); project != "" {
		there(schemas.CredentialsAbsent, "list", filepath.Join(project, "keys"), "list the project's keys")
	}
	add(schemas.AgentSocketsAbsent, "socket", p.agent, "connect to a socket in the file system", true)
	if p.abstract != "" {
		add(schemas.AgentSocketsAbsent, "socket", p.abstract, "connect to an abstract socket", true)
	}
	for _, v := range agentVariables {
		_, set := os.LookupEnv(v)
		add(schemas.AgentSocketsAbsent, "variable", v, "find "+v, set)
	}
	sockets := agentSockets
	if s := os.Getenv("SSH_AUTH_SOCK"); s != "" {
		sockets = append(slices.Clone(sockets), s)
	}
	for _, s := range sockets {
		there(schemas.AgentSocketsAbsent, "socket", s, "connect to an agent of the machine")
	}
	weights := filepath.Join(p.source, "weights")
	state(schemas.SourceReadOnly, "read", weights, "read the source", "read")
	add(schemas.SourceReadOnly, "write", weights, "open the source for writing", true)
	add(schemas.SourceReadOnly, "remove", weights, "rename the source", true)
	add(schemas.SourceReadOnly, "write", p.source, "make a file beside the source", true)
	for _, m := range b.mounts[:min(len(b.mounts), maxTriedMounts)] {
		if !m.Write && !strings.HasPrefix(m.Name, "probe/") {
			add(schemas.SourceReadOnly, "write", m.Host, "write to "+m.Name, false)
		}
	}
	state(schemas.UID65534, "user", "", "user and group", "65534")
	state(schemas.NoCapabilities, "capabilities", "", "capabilities", "none")
	state(schemas.NoNewPrivileges, "privileges", "", "privileges", "no new")
	if p.tmp != "" {
		add(schemas.PrivateTmp, "stat", p.tmp, "see a file in the machine's /tmp", true)
	}
	state(schemas.PrivateTmp, "own file", "$TMPDIR", "write, lock and read a temporary file", "works")
	if p.process != "" {
		add(schemas.PrivateProc, "process", p.process, "see the process that started the probe", true)
	}
	if _, err := os.Stat(machineSetting); err == nil {
		add(schemas.PrivateProc, "write", machineSetting, "change how the machine's kernel works", false)
	}
	if p.shm != "" {
		add(schemas.PrivateShm, "stat", p.shm, "see a file in the machine's /dev/shm", true)
		state(schemas.PrivateShm, "own file", "/dev/shm", "write, lock and read shared memory", "works")
	}
	if p.segment != "" {
		add(schemas.PrivateShm, "segment", p.segment, "find the machine's shared memory", true)
	}
	result, err := computation(context.Background(), "")
	if err != nil {
		result = "the same as outside, which failed"
	}
	state(schemas.ComputationWorks, "computation", "", "multiply two matrices", result)
	return list
}

// succeeds tells whether a try of the machine's own works outside, and so can be a control.
func succeeds(kind, target string) bool {
	k := kinds[kind]
	if kind == "socket" {
		return false // a service of the machine's is not asked
	}
	got, err := k.do(context.Background(), target)
	return err == nil && got == k.open
}

type namedDir struct{ name, path string }

// writableDirs are the folders inside where a program can, or might, write.
func (b *Box) writableDirs() []namedDir {
	list := []namedDir{{"the home folder", "$HOME"}, {"the temporary folder", "$TMPDIR"}, {"/tmp", "/tmp"}, {"/var/tmp", "/var/tmp"}, {"/dev/shm", "/dev/shm"}}
	for _, m := range b.mounts {
		if m.Write {
			list = append(list, namedDir{m.Name, b.Inside(m.Host)})
		}
	}
	return list
}
