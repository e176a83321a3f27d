"""Problems that are periodic in all of space: solved wave by wave, by Fourier transforms."""

from stablepdenet.spectral.waves.march import WaveMarch, make_wave_march

__all__ = ["WaveMarch", "make_wave_march"]
