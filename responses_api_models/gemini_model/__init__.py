"""Model server for Google's Gemini API and Vertex AI, with the computer-use tool."""
