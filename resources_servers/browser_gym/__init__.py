"""Resources server: a pool of Chromium browsers that acts, observes and grades."""
