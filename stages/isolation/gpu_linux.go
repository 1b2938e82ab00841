package isolation

import "path/filepath"

// graphicsNodes are the device nodes of NVIDIA, AMD and other graphics processors that this machine has.
func graphicsNodes() []string {
	return globs("/dev/nvidia*", "/dev/nvidia-caps/*", "/dev/dri", "/dev/kfd")
}

// graphicsFiles are the drivers' files outside /usr, and what their libraries read of /sys and /proc.
func graphicsFiles() []string {
	return globs("/etc/OpenCL", "/etc/vulkan", "/etc/nvidia", "/opt/rocm*", "/sys/class/kfd", "/sys/class/drm", "/sys/devices/virtual/kfd", "/sys/dev/char", "/sys/bus/pci/devices",
		"/sys/devices/pci*", "/sys/module/nvidia*", "/sys/module/amdgpu")
}

func globs(patterns ...string) []string {
	var list []string
	for _, p := range patterns {
		found, _ := filepath.Glob(p) // only a malformed pattern fails
		list = append(list, found...)
	}
	return list
}
