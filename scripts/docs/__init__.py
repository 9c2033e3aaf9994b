"""The documentation: pages made of the code, READMEs as pages, and its commands tried."""
