package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	godigest "github.com/opencontainers/go-digest"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/weighmaster/weighmaster/schemas"
	"github.com/weighmaster/weighmaster/stages/azure"
	"github.com/weighmaster/weighmaster/stages/azure/azuretest"
)

var scriptVM = azuretest.VM{Subscription: "8c4b1f2e-7777-4000-8000-0123456789ab", ResourceGroup: "rented-group", Name: "converter-vm", VMID: "5f1c2d3e-1111-4111-8111-abcdefabcdef", Size: "Standard_NC24ads_A100_v4"}

// azureServers are the servers of running scripts, by working folder.
var azureServers sync.Map

// cmdAzure: azure serve PROJECT starts a machine of Azure on loopback until the
// script ends, writes PROJECT/vm.yaml and a cost sheet for it, PROJECT/cost.yaml.
// azure deallocates N: from now on it deallocates within N reads; -1 is never.
// azure asked N: it was asked N times to deallocate.
// azure absent DIR: the files there tell of the release and hold nothing of the account.
func cmdAzure(ts *testscript.TestScript, _ bool, args []string) {
	if args[0] == "serve" {
		s := azuretest.NewServer(scriptVM)
		ts.Defer(s.Close)
		azureServers.Store(ts.MkAbs("."), s)
		ts.Setenv(azureVariable, s.URL)
		vm := fmt.Sprintf("schema: %s\nprovider: azure\nsubscription: %s\nresourceGroup: %s\nname: %s\nvmId: %s\nsize: %s\n", schemas.ComputeURI, scriptVM.Subscription, scriptVM.ResourceGroup, scriptVM.Name, scriptVM.VMID, scriptVM.Size)
		ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(args[1]), "vm.yaml"), []byte(vm), 0o600))
		id := azure.ResourceID(schemas.Compute{Subscription: scriptVM.Subscription, ResourceGroup: scriptVM.ResourceGroup, Name: scriptVM.Name})
		machine := godigest.FromString(strings.ToLower(id + "\n" + scriptVM.VMID))
		sheet := fmt.Sprintf("schema: %s\ntitle: what was rented\ncurrency: USD\nrates:\n  - {name: gpu, amount: \"3.673\", per: hour, source: a price list, date: \"2026-11-01\"}\ncompute:\n  - {what: the machine, rate: gpu, machine: \"%s\"}\nassumptions: []\nexclusions: []\n", schemas.CostURI, machine)
		ts.Check(os.WriteFile(filepath.Join(ts.MkAbs(args[1]), "cost.yaml"), []byte(sheet), 0o600))
		return
	}
	if args[0] == "absent" {
		ts.Check(nothingOfTheAccount(ts.MkAbs(args[1])))
		return
	}
	found, ok := azureServers.Load(ts.MkAbs("."))
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	if !ok {
		ts.Fatalf("azure: nothing is served")
	}
	s := found.(*azuretest.Server)
	switch args[0] {
	case "deallocates":
		s.SetDeallocation(n)
	case "asked":
		if s.Deallocations() != n {
			ts.Fatalf("azure was asked %d times to deallocate, want %d", s.Deallocations(), n)
		}
	default:
		ts.Fatalf("azure: got %q, want serve, deallocates, asked or absent", args[0])
	}
}

// nothingOfTheAccount reads an unpacked evidence package, payloads decoded.
func nothingOfTheAccount(dir string) error {
	told := false
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		body, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for line := range bytes.Lines(body) {
			var bundle struct {
				Envelope struct {
					Payload []byte `json:"payload"`
				} `json:"dsseEnvelope"`
			}
			if json.Unmarshal(line, &bundle) == nil {
				line = append(bytes.Clone(line), bundle.Envelope.Payload...)
			}
			told = told || bytes.Contains(line, []byte("stage/release/v1"))
			for _, secret := range []string{scriptVM.Subscription, scriptVM.ResourceGroup, scriptVM.Name, scriptVM.VMID} {
				if bytes.Contains(line, []byte(secret)) {
					return fmt.Errorf("%s holds %s", name, secret)
				}
			}
		}
		return nil
	})
	if err == nil && !told {
		err = fmt.Errorf("%s tells of no release: there is nothing to look at", dir)
	}
	return err
}
