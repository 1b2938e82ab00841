// Package azuretest serves, over HTTP on a loopback address, as much of Azure
// Resource Manager as a release asks for: one virtual machine with its instance
// view, its deallocation as a long-running operation, its disk, network
// interface, subnet and security group. It is for tests: a program that is
// pointed at it talks to it as it talks to Azure.
package azuretest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
)

// VM is the machine that a server has.
type VM struct {
	Subscription, ResourceGroup, Name, VMID, Size string
}

// Server speaks for Azure until Close.
type Server struct {
	URL string // http://127.0.0.1:PORT, for the release stage's test endpoint
	VM  VM

	http     *httptest.Server
	mu       sync.Mutex
	power    string
	lag      int // reads of the machine during which it is still deallocating; negative: for ever
	left     int
	asked    int
	requests []string
	answer   func(w http.ResponseWriter, r *http.Request) bool
}

// NewServer starts a server whose machine runs and is deallocated two reads after it was asked to be.
func NewServer(vm VM) *Server {
	s := &Server{VM: vm, power: "PowerState/running", lag: 2}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = s.http.URL
	return s
}

// Close stops the server.
func (s *Server) Close() { s.http.Close() }

// SetPower sets the machine's power state, e.g. PowerState/stopped.
func (s *Server) SetPower(code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.power = code
}

// SetDeallocation sets during how many reads the machine is still deallocating
// once it was asked to be; negative means for ever.
func (s *Server) SetDeallocation(reads int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag = reads
	if s.power == "PowerState/deallocating" {
		s.left = reads
	}
}

// SetAnswer has f answer requests first; it returns false for those that it leaves to the server.
func (s *Server) SetAnswer(f func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

// Deallocations is how often the machine was asked to be deallocated.
func (s *Server) Deallocations() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Requests lists method and path of every request so far.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.requests...)
}

func (s *Server) group() string {
	return "/subscriptions/" + s.VM.Subscription + "/resourceGroups/" + s.VM.ResourceGroup + "/providers/"
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	if s.answer != nil && s.answer(w, r) {
		return
	}
	machine := s.group() + "Microsoft.Compute/virtualMachines/" + s.VM.Name
	network := s.group() + "Microsoft.Network/"
	switch path := r.URL.Path; {
	case r.URL.Query().Get("api-version") == "":
		reply(w, http.StatusBadRequest, failure("MissingApiVersionParameter"))
	case r.Method == http.MethodPost && strings.EqualFold(path, machine+"/deallocate"):
		s.asked++
		if s.power != "PowerState/deallocated" && s.power != "PowerState/deallocating" {
			s.power, s.left = "PowerState/deallocating", s.lag
		}
		w.Header().Set("Azure-AsyncOperation", s.URL+"/subscriptions/"+s.VM.Subscription+"/providers/Microsoft.Compute/locations/eastus/operations/1?api-version=2026-04-01")
		w.WriteHeader(http.StatusAccepted)
	case r.Method == http.MethodGet && strings.HasSuffix(path, "/operations/1"):
		status := "InProgress"
		if s.power == "PowerState/deallocated" {
			status = "Succeeded"
		}
		reply(w, http.StatusOK, map[string]any{"status": status})
	case r.Method == http.MethodGet && strings.EqualFold(path, machine):
		reply(w, http.StatusOK, s.machine(machine, network))
	case r.Method == http.MethodGet && strings.EqualFold(path, machine+"/instanceView"):
		reply(w, http.StatusOK, s.view())
	case r.Method == http.MethodGet && strings.EqualFold(path, s.group()+"Microsoft.Compute/disks/os"):
		reply(w, http.StatusOK, map[string]any{"location": "eastus", "name": "os", "sku": map[string]any{"name": "StandardSSD_LRS"}, "properties": map[string]any{"diskSizeGB": 1024}})
	case r.Method == http.MethodGet && strings.EqualFold(path, network+"networkInterfaces/nic"):
		reply(w, http.StatusOK, map[string]any{"id": path, "name": "nic", "properties": map[string]any{"ipConfigurations": []any{map[string]any{
			"name": "ip", "properties": map[string]any{"subnet": map[string]any{"id": network + "virtualNetworks/net/subnets/sub"}, "publicIPAddress": map[string]any{"id": network + "publicIPAddresses/address"}},
		}}}})
	case r.Method == http.MethodGet && strings.EqualFold(path, network+"virtualNetworks/net/subnets/sub"):
		reply(w, http.StatusOK, map[string]any{"id": path, "name": "sub", "properties": map[string]any{"networkSecurityGroup": map[string]any{"id": network + "networkSecurityGroups/rules"}}})
	case r.Method == http.MethodGet && strings.EqualFold(path, network+"networkSecurityGroups/rules"):
		reply(w, http.StatusOK, map[string]any{"id": path, "name": "rules", "properties": map[string]any{"securityRules": []any{map[string]any{
			"name": "ssh", "properties": map[string]any{"access": "Allow", "direction": "Inbound", "priority": 100, "protocol": "Tcp", "sourceAddressPrefix": "198.51.100.7/32", "destinationPortRange": "22"},
		}}}})
	default:
		reply(w, http.StatusNotFound, failure("ResourceNotFound"))
	}
}

// view is the instance view; a read of a machine that is being deallocated brings its end nearer.
func (s *Server) view() map[string]any {
	if s.power == "PowerState/deallocating" {
		if s.left == 0 {
			s.power = "PowerState/deallocated"
		} else if s.left > 0 {
			s.left--
		}
	}
	return map[string]any{"hyperVGeneration": "V2", "statuses": []any{
		map[string]any{"code": "ProvisioningState/succeeded", "level": "Info", "time": "2026-11-30T10:00:00Z"},
		map[string]any{"code": s.power, "level": "Info"},
	}}
}

func (s *Server) machine(id, network string) map[string]any {
	return map[string]any{
		"id": id, "name": s.VM.Name, "type": "Microsoft.Compute/virtualMachines", "location": "eastus", "tags": map[string]any{},
		"properties": map[string]any{
			"vmId": s.VM.VMID, "provisioningState": "Succeeded", "timeCreated": "2026-11-30T09:00:00Z",
			"hardwareProfile": map[string]any{"vmSize": s.VM.Size},
			"storageProfile": map[string]any{
				"imageReference": map[string]any{"publisher": "Canonical", "offer": "ubuntu-24_04-lts", "sku": "server", "version": "latest", "exactVersion": "24.04.202611010"},
				"osDisk":         map[string]any{"name": "os", "osType": "Linux", "createOption": "FromImage", "managedDisk": map[string]any{"id": s.group() + "Microsoft.Compute/disks/os"}},
				"dataDisks":      []any{},
			},
			"networkProfile": map[string]any{"networkInterfaces": []any{map[string]any{"id": network + "networkInterfaces/nic"}}},
			"instanceView":   s.view(),
		},
	}
}

func failure(code string) map[string]any {
	return map[string]any{"error": map[string]any{"code": code, "message": code}}
}

func reply(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		panic(fmt.Sprintf("azuretest: %v", err)) // only values made here
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(b)
}
